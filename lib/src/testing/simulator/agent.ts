// The agent of the simulator: a model and tools that do what the messages of the clients say.
//
// A message is a plan such as `#7 look pay;erase`: number 7, a first reply that calls `look` and `pay`, a second one that calls `erase`, then a text. The
// model follows the plan of the newest user message and derives the step from the replies after it. So it gives the same reply to the same
// request in every process, each call has an id that is unique in the simulation, and every effect can be named: `7.0` is the first model call of plan 7,
// and `7.0.1` the second call of its reply.

import type { FakeScript } from "../../adapters/internal.ts";
import type { Adapter, Engine, Tool } from "../../engine/internal.ts";
import type { ModelRequest, ReplayPolicy } from "../../model/internal.ts";
import type { SimulatedProcess } from "./process.ts";

import { fake } from "../../adapters/internal.ts";
import { engine, tool } from "../../engine/internal.ts";
import { messageText } from "../../model/internal.ts";
import { randomStream } from "./random.ts";

/** The tools that a plan can name. */
export const toolNames = ["look", "pay", "mail", "erase", "fetch", "slow"] as const;

/** What the agent reports when an effect begins, before it has any consequence. */
export type EffectBegin =
  | { readonly type: "model"; readonly name: string }
  | {
      readonly type: "tool";
      readonly name: string;
      readonly tool: string;
      readonly policy: ReplayPolicy;
      readonly session: string;
      readonly needsApproval: boolean;
    };

/** The engine of one process. `began` is called when an effect begins. */
export function simulatedAgent(
  seed: number,
  process: SimulatedProcess,
  began: (process: SimulatedProcess, effect: EffectBegin) => void,
): Engine {
  const adapter: Adapter = {
    provider: "simulated",
    async *stream(request, call) {
      await call.beforeRequest?.();
      const { name, script } = replyTo(seed, request);
      began(process, { type: "model", name });
      yield* fake({ provider: "simulated", script, usage: { inputTokens: 10, outputTokens: 5 } }).stream(request, call);
    },
  };
  const make = (name: string, replay: ReplayPolicy, options: { readonly needsApproval?: boolean } = {}): Tool =>
    tool({
      name,
      description: `A tool with the replay policy ${replay}.`,
      schema: { type: "object" },
      replay,
      ...options,
      handler: async (input, { sessionId, signal }) => {
        const id = callIdOf(input);
        const needsApproval = options.needsApproval ?? false;
        began(process, { type: "tool", name: id, tool: name, policy: replay, session: sessionId ?? "", needsApproval });
        await process.clock.sleep(name === "slow" ? 4500 : durationOf(seed, id), signal);
        return `${name} ${id}`;
      },
    });
  return engine({
    adapter,
    model: "simulated:m",
    clock: process.clock,
    tools: [
      make("look", "safe"),
      make("pay", "never"),
      make("mail", "ask"),
      make("erase", "never", { needsApproval: true }),
      make("slow", "safe"),
      tool({ name: "fetch", description: "A tool that the client runs.", schema: { type: "object" }, manual: true }),
    ],
  });
}

/** The number of the plan of a message; `null`: it is no plan. */
export function planNumber(text: string): string | null {
  return /^#(\d+) /.exec(text)?.[1] ?? null;
}

/** The name of the model call that gave a reply: by its first call, or by its text. */
export function replyName(text: string, callIds: readonly string[]): string | null {
  const [call] = callIds;
  if (call !== undefined) return call.replace(/\.\d+$/, "");
  return /^Reply (\d+\.\d+) /.exec(text)?.[1] ?? null;
}

function callIdOf(input: unknown): string {
  return typeof input === "object" && input !== null && "id" in input ? String(input.id) : "";
}

/** Most effects are short; some are longer than a renewal interval, a few longer than a lease. */
function durationOf(seed: number, name: string): number {
  const random = randomStream(seed, `duration ${name}`);
  if (random.chance(0.05)) return random.whole(3000, 7000);
  return random.chance(0.15) ? random.whole(500, 1500) : random.whole(1, 60);
}

function replyTo(
  seed: number,
  { messages }: ModelRequest,
): {
  readonly name: string;
  readonly script: FakeScript;
} {
  const at = messages.findLastIndex((message) => message.role === "user" && planNumber(messageText(message)) !== null);
  const planMessage = messages[at];
  const text = planMessage === undefined ? "#0 " : messageText(planMessage);
  const plan = planNumber(text) ?? "0";
  const step = messages.slice(at + 1).filter(({ role }) => role === "assistant").length;
  const name = `${plan}.${step}`;
  const calls = (text.replace(/^#\d+ /, "").split(";")[step] ?? "").split(" ").filter((word) => word !== "");
  const ms = durationOf(seed, name);
  const script: FakeScript =
    calls.length === 0
      ? [
          { type: "delay", ms: Math.ceil(ms / 2) },
          { type: "text", text: `Reply ${name} ` },
          { type: "delay", ms: Math.ceil(ms / 2) },
          { type: "text", text: "is complete." },
        ]
      : [
          { type: "delay", ms },
          ...calls.map((called, index) => {
            const id = `${name}.${index}`;
            return { type: "tool_call", name: called, id, arguments: { id } } as const;
          }),
        ];
  return { name, script };
}
