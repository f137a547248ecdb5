// The processor time of a Postgres server, to tell a saturated processor from waits for locks. Linux only.

import { readdirSync, readFileSync } from "node:fs";

/** The kernel counts processor time in hundredths of a second (`getconf CLK_TCK`). */
const ticksPerSecond = 100;

/**
 * The processor time of a process and of its children, also of those that have ended, in seconds; `NaN`: it is not
 * known.
 */
export function processorSeconds(pid: number | null): number {
  if (pid === null || process.platform !== "linux") return Number.NaN;
  let ticks = 0;
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    const fields = statOf(name);
    const [parent, user = 0, system = 0, endedUser = 0, endedSystem = 0] = [1, 11, 12, 13, 14].map((index) =>
      Number(fields[index]),
    );
    if (Number(name) === pid) ticks += user + system + endedUser + endedSystem;
    else if (parent === pid) ticks += user + system;
  }
  return ticks / ticksPerSecond;
}

/** The fields of `/proc/<pid>/stat` after the name of the program, which may contain spaces. */
function statOf(pid: string): readonly string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    // The process has ended meanwhile.
    return [];
  }
}
