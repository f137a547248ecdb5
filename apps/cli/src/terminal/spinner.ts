// The spinner. Its frame is a function of the time, so it needs no state.

const frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

export const spinnerEveryMs = 100;

export function spinner(now: number): string {
  return frames[Math.floor(now / spinnerEveryMs) % frames.length] ?? "⠋";
}
