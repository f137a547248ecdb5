// The scenarios that the studio offers: prepared conversations of a scripted model, which need no API key and no
// network. Each starts a session with the engine `scenarios`, whose tools have schemas, so that forms of approvals work
// as for any other engine.

import type { Engine } from "everturn";
import type { Scenario } from "everturn/http";

import { Crashes } from "./crash.ts";
import { scenarioEngine, scenarioEngineName } from "./engine.ts";
import { crashName, scenarioScripts } from "./scripts.ts";

export type Scenarios = {
  /** The engine that the runtime needs, by name. */
  readonly engines: { readonly [name: string]: Engine };
  /**
   * The scenarios for the option `inspect` of the handler. `database`: where a child process finds the sessions;
   * `null`: it cannot open the database, so no process is killed.
   */
  readonly over: (database: string | null) => readonly Scenario[];
  /** Ends the child processes. */
  readonly close: () => Promise<void>;
};

/** Creates the scenarios. `paceMs`: the delay between two words of the model, in milliseconds. */
export function createScenarios({ paceMs }: { readonly paceMs: number }): Scenarios {
  const crashes = new Crashes();
  return {
    engines: { [scenarioEngineName]: scenarioEngine(paceMs) },
    over: (database) =>
      scenarioScripts.flatMap(({ name, title, description, prompt }): readonly Scenario[] => {
        const view = { name, title, description };
        const newId = () => `scenario-${name}-${crypto.randomUUID().slice(0, 8)}`;
        if (name !== crashName) {
          const start: Scenario["start"] = async (sessions) => {
            const { sessionId } = await sessions.start(prompt, { id: newId(), engine: scenarioEngineName });
            return { sessionId };
          };
          return [{ ...view, start }];
        }
        if (database === null) return [];
        const start: Scenario["start"] = async () => {
          const sessionId = newId();
          await crashes.start({ database, sessionId, prompt, paceMs });
          return { sessionId };
        };
        return [{ ...view, start }];
      }),
    close: () => crashes.close(),
  };
}
