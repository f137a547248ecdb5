// Recognises processes of this machine that have ended (`Liveness` of the storage contract). Linux only; elsewhere a
// process has no identity, and its leases expire.
//
// The identity of a process: boot id, pid namespace, time namespace, pid, start time. The boot id and the namespaces
// say for which processes the pid is meaningful; the start time (field 22 of /proc/<pid>/stat, in clock ticks since
// boot) tells a process from a later one with the same pid.
//
// A process has certainly ended if this process has the same boot id and namespaces, and
//   - kill(pid, 0) fails with ESRCH. A missing /proc/<pid> alone proves nothing: the mount option hidepid hides
//     processes of other users; or
//   - /proc/<pid>/stat has another start time.
// A stopped process and a zombie have not ended. Whatever cannot be read counts as not ended.

import type { Liveness } from "../../rows/internal.ts";

import { readFileSync, readlinkSync } from "node:fs";

/** The parts of an identity. */
type Identity = { readonly machine: string; readonly pid: number; readonly startTime: string };

/** The liveness of this process and of others on this machine. Reads a few files of /proc once. */
export function processLiveness(): Liveness {
  const self = ownIdentity();
  return {
    process: self === null ? null : `${self.machine}/${self.pid}/${self.startTime}`,
    hasEnded: (process) => {
      const other = parseIdentity(process);
      if (self === null || other === null || other.machine !== self.machine) return false;
      if (!exists(other.pid)) return true;
      const startTime = startTimeOf(other.pid);
      return startTime !== null && startTime !== other.startTime;
    },
  };
}

/**
 * The identity of this process; `null`: this is not Linux, or /proc cannot be read or belongs to another pid namespace.
 */
function ownIdentity(): Identity | null {
  if (process.platform !== "linux") return null;
  try {
    if (readlinkSync("/proc/self") !== String(process.pid)) return null;
    const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const startTime = startTimeOf(process.pid);
    if (!/^[0-9a-f-]{36}$/.test(bootId) || startTime === null) return null;
    return { machine: `linux/${bootId}/${namespace("pid")}/${namespace("time")}`, pid: process.pid, startTime };
  } catch {
    return null;
  }
}

/**
 * The inode number of a namespace of this process. Throws if there is none: kernels before 5.6 have no time namespaces,
 * and get no identity.
 */
function namespace(name: "pid" | "time"): string {
  const [, inode] = /\[(\d+)\]$/.exec(readlinkSync(`/proc/self/ns/${name}`)) ?? [];
  if (inode === undefined) throw new Error(`the namespace ${name} cannot be read`);
  return inode;
}

function parseIdentity(text: string): Identity | null {
  const [, machine, pid, startTime] = /^(linux\/[0-9a-f-]{36}\/\d+\/\d+)\/(\d{1,10})\/(\d{1,20})$/.exec(text) ?? [];
  if (machine === undefined || pid === undefined || startTime === undefined || Number(pid) < 1) return null;
  return { machine, pid: Number(pid), startTime };
}

/** Returns whether there is a process with this pid, also one of another user. */
function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}

/** The start time of a process; `null`: it cannot be read. */
function startTimeOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the name in parentheses, which may contain spaces and parentheses. The start time is
    // field 22.
    const startTime = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
    return startTime !== undefined && /^\d+$/.test(startTime) ? startTime : null;
  } catch {
    return null;
  }
}
