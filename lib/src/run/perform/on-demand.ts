// Code that a run loads when it needs it: programs that only send messages do not load it, and programs that need it begin sooner.
//
// After the first use the code is there at once. Until then the caller gets a promise. The code of tools starts to load when the first model call of a
// turn with tools starts, so it is there when the model has answered, and the first text does not wait for it. A turn that is durable, that has hooks, or that
// has the code protocol loads all of its code before it starts (run.ts).

import { EngineError } from "../../model/internal.ts";

/** Returns the code if it is loaded, otherwise a promise of it. The promise rejects with `EngineError` if the code cannot be loaded; the next call tries again. */
type OnDemand<Code> = () => Code | Promise<Code>;

/** `what` names the code in the message of an error. */
export function onDemand<Code>(what: string, load: () => Promise<Code>): OnDemand<Code> {
  let code: Code | null = null;
  return () => code ?? loaded();

  async function loaded(): Promise<Code> {
    try {
      return (code = await load());
    } catch (cause) {
      const message = `the code of ${what} could not be loaded: a file is missing or unreachable`;
      throw new EngineError("invalid_engine", { message, cause });
    }
  }
}

/** The performers of tool calls and of hooks. */
export const callPerformers = onDemand("tools and hooks", () => import("./call-performers.ts"));

/** The code protocol and the performer of its cells. */
export const codeCells = onDemand("cells", () => import("./code-cells.ts"));

/** Loads all code that runs load on demand. For tests whose order of events must not depend on whether an earlier run has loaded it. */
export async function loadAll(): Promise<void> {
  await Promise.all([callPerformers(), codeCells()]);
}

/** Uses code at once if it is loaded, otherwise when it is. */
export function whenLoaded<Code, Result>(
  code: Code | Promise<Code>,
  use: (code: Code) => Promise<Result>,
): Promise<Result> {
  return code instanceof Promise ? code.then(use) : use(code);
}
