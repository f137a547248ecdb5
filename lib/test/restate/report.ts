// What the parts of the test have measured. Each line is printed when it is known, and all of them once more at the
// end.

const lines: string[] = [];

/** Prints what a part has measured. */
export function report(...texts: readonly string[]): void {
  lines.push(...texts);
  for (const text of texts) console.log(text);
}

/** Everything that was reported. */
export function reported(): readonly string[] {
  return lines;
}

/** How long turns may take to end, in milliseconds: the machine may be busy with other work. */
export const patienceMs = 300_000;

/** Waits until a condition holds. Throws after {@link patienceMs}. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, everyMs = 20): Promise<void> {
  for (const end = Date.now() + patienceMs; !(await holds());) {
    if (Date.now() > end) throw new Error(`${what}: not within ${patienceMs / 1000} seconds`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
