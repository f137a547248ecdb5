// The agent of the demo, the same in every process: workers drive it, and whoever only accepts and reads needs it to say what a turn begins with.

import type { WorldLog } from "./world-log.ts";
import type { Environment } from "@everturn/server";
import type { Adapter, Engine } from "everturn";

import { engine } from "everturn";

import { realEngine } from "./real-model.ts";
import { scriptedModel, scriptedName } from "./scripted-model.ts";
import { instructions, storyTools } from "./story.ts";

/** Short, so that what a killed worker had is soon somebody else's; long enough for a busy machine to renew it. */
export const lease = { ttlMs: 1200, renewMs: 200 } as const;

export type AgentSetup = {
  /** `provider:name`; `null`: the scripted one. */
  readonly model: string | null;
  readonly config: string | null;
  readonly environment: Environment;
  /** Where what is done is written down; `null`: nothing will be. */
  readonly world: WorldLog | null;
};

export async function demoAgent({ model, config, environment, world }: AgentSetup): Promise<Engine> {
  const base =
    model === null
      ? engine({ adapter: scriptedModel(), model: scriptedName })
      : await realEngine({ model, config, environment });
  return {
    ...base,
    adapter: base.adapter === null ? null : counted(base.adapter, world),
    instructions,
    tools: storyTools(world),
    options: { maxTurns: 12 },
  };
}

/** The adapter, with a line in the log for each call. */
function counted(adapter: Adapter, world: WorldLog | null): Adapter {
  return {
    ...adapter,
    stream: (request, call) => ({
      async *[Symbol.asyncIterator]() {
        world?.modelAsked();
        yield* adapter.stream(request, call);
        world?.modelAnswered();
      },
    }),
  };
}
