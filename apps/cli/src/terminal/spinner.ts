// Something that turns while something is going on. Which picture it is follows from the time, so nobody has to count.

const frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

export const spinnerEveryMs = 100;

export function spinner(now: number): string {
  return frames[Math.floor(now / spinnerEveryMs) % frames.length] ?? "⠋";
}
