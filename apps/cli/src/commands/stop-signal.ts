// The end of commands that run until they are stopped.

import type { CommandContext } from "./context.ts";

import { exitCodes } from "./exit-codes.ts";

/** Resolves at the first SIGINT or SIGTERM; the second ends the process immediately. */
export function stopSignal({ io }: CommandContext): Promise<void> {
  return new Promise((resolve) => {
    let signals = 0;
    const stop = () => {
      signals += 1;
      if (signals > 1) io.exit(exitCodes.interrupted);
      resolve();
    };
    io.onInterrupt(stop);
    io.onTerminate(stop);
  });
}
