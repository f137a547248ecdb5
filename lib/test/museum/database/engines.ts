// The engines of the stored sessions, by name. A session is finished with the engine it started with, so the replies,
// calls and results of these engines are never changed. A new session state gets a new engine.

import type { Probe } from "./probe.ts";
import type { Adapter, Engine, FakeScript, JsonObject, ModelRequest, Tool } from "everturn";
import type { CodeExecutor, ToolDefinition } from "everturn/advanced";
import type { CellResult, EngineFields } from "../../../src/core/engine/internal.ts";
import type { ReplayPolicy } from "../../../src/core/model/internal.ts";

import { agentTool, askUser, engine, fail, tool } from "everturn";
import { steadyModel } from "everturn/testing";

type Asked = { readonly request: ModelRequest; readonly step: number; readonly attempt: number };
type Fields = Omit<EngineFields, "context" | "adapter" | "model" | "clock">;

/** Text in two pieces: a process can be cut between them. */
const say = (text: string): FakeScript => [
  { type: "text", text: text.slice(0, 5) },
  { type: "text", text: text.slice(5) },
];

/** Tool calls in one reply, each with distinct id and arguments. */
const calls = (step: number, ...names: readonly string[]): FakeScript =>
  names.map((name, slot) => ({ type: "tool_call", name, id: `c${step}-${slot}`, arguments: { step, slot } }));

const object = { type: "object" } as const;
const cityFormat = { type: "object", properties: { city: { type: "string" } }, required: ["city"] } as const;

/** Builds one engine; everything it performs is counted under its name. */
class EngineKit {
  readonly #name: string;
  readonly #probe: Probe;

  constructor(name: string, probe: Probe) {
    this.#name = name;
    this.#probe = probe;
  }

  engine(adapter: Adapter, fields: Fields = {}): Engine {
    return engine({ adapter, model: `${adapter.provider}:m`, clock: this.#probe.clock, ...fields });
  }

  /** A model whose reply is a function of the request, so that every process gets the same reply. */
  model(answer: (asked: Asked) => FakeScript, provider = "fake"): Adapter {
    const real = steadyModel(answer, provider);
    const [name, probe] = [this.#name, this.#probe];
    return {
      ...real,
      stream: async function* (request, call) {
        probe.count(name, provider === "fake" ? "model" : `${provider} model`);
        let batches = 0;
        for await (const batch of real.stream(request, call)) {
          yield batch;
          batches += 1;
          if (batches === 2) await probe.pass(`${provider} reply ${call.attempt}`);
        }
      },
    };
  }

  /** A model with one script for each reply. */
  inOrder(...scripts: readonly FakeScript[]): Adapter {
    return this.model(({ step }) => scripts[step] ?? say(`Reply ${step + 1}.`));
  }

  tool(name: string, replay: ReplayPolicy, fields: Partial<ToolDefinition<JsonObject>> = {}): Tool {
    const { handler = (input) => `${name} ${JSON.stringify(input)}`, ...rest } = fields;
    return tool({
      name,
      description: `A tool whose replay policy is ${replay}.`,
      schema: object,
      replay,
      ...rest,
      handler: async (input, context) => {
        this.#probe.count(this.#name, name);
        await this.#probe.pass(name);
        return handler(input, context);
      },
    });
  }

  gated(name: string): Tool {
    return this.tool(name, "never", { needsApproval: true });
  }

  manual(name: string): Tool {
    return tool({ name, description: "Performed by another system.", schema: object, manual: true });
  }

  asking(answerAs: "user_message" | "tool_result"): Tool {
    return this.tool("ask", "safe", { handler: () => askUser("Which city?", { answerAs }) });
  }

  /** One tool for each replay policy. */
  get everyPolicy(): readonly Tool[] {
    return [this.tool("look", "safe"), this.tool("pay", "never"), this.tool("send", "ask")];
  }

  /** Runs cells whose code is a JSON list of rounds; the calls of a round are made in parallel. */
  get executor(): CodeExecutor {
    return {
      name: "plan",
      version: "1",
      language: "plan",
      run: async ({ code, calls: answered }): Promise<CellResult> => {
        this.#probe.count(this.#name, "cell");
        const rounds: readonly (readonly string[])[] = JSON.parse(code);
        let before = 0;
        for (const [round, names] of rounds.entries()) {
          const planned = names.map((name, slot) => ({ name, arguments: { round, slot } }));
          if (answered.length === before) return { type: "calls", calls: planned };
          before += names.length;
        }
        return { type: "finished", observations: [`${answered.length} answers`], error: null, finish: null };
      },
    };
  }

  count(effect: string): void {
    this.#probe.count(this.#name, effect);
  }
}

const cell = (...rounds: readonly (readonly string[])[]): FakeScript => [
  { type: "text", text: `I run this.\n\`\`\`plan\n${JSON.stringify(rounds)}\n\`\`\`\n` },
];

const unavailable: FakeScript = [{ type: "error", reason: "provider_unavailable", status: 529, retryable: true }];

const builders = {
  accepted: (kit) => kit.engine(kit.inOrder(say("Hello there."))),
  cut_in_reply: (kit) => kit.engine(kit.inOrder(say("Hello there, this is a reply in pieces."))),
  cut_after_reply: (kit) =>
    kit.engine(kit.inOrder(calls(0, "look", "pay"), say("Both are answered.")), { tools: kit.everyPolicy }),
  cut_in_parallel_tools: (kit) =>
    kit.engine(kit.inOrder(calls(0, "note", "look", "pay", "send"), say("All four are answered.")), {
      tools: [...kit.everyPolicy, kit.tool("note", "safe")],
    }),
  cut_after_hook: (kit) =>
    kit.engine(kit.inOrder(calls(0, "pay"), say("Paid.")), {
      tools: kit.everyPolicy,
      options: {
        hooks: {
          beforeTool: ({ name, arguments: args }) => {
            kit.count(`before ${name}`);
            return { type: "replace_arguments", arguments: { ...args, checked: true } };
          },
        },
      },
    }),
  cut_in_retry: (kit) =>
    kit.engine(
      kit.model(({ attempt }) => (attempt < 3 ? unavailable : say("At the third attempt."))),
      { retry: { maxAttempts: 3, baseDelayMs: 1000, jitterMs: 0 } },
    ),
  cut_in_tool_retry: (kit) =>
    kit.engine(kit.inOrder(calls(0, "flaky"), say("It failed three times.")), {
      tools: [
        kit.tool("flaky", "safe", {
          retry: { type: "safe", maxAttempts: 3, baseDelayMs: 1000, maxDelayMs: 1000 },
          handler: () => fail("busy", { retry: { type: "safe", afterMs: null } }),
        }),
      ],
    }),
  cut_after_fallback: (kit) =>
    kit.engine(
      kit.model(({ request, step }) => {
        if (request.model === "fake:m") return unavailable;
        return step === 0 ? calls(0, "look") : say("From the second model.");
      }),
      { tools: kit.everyPolicy, retry: false, fallback: ["fake:second"] },
    ),
  cut_before_finalize: (kit) =>
    kit.engine(
      kit.model(({ request, step }) => {
        if (request.responseFormat !== null) return [{ type: "text", text: '{"city":"Oslo"}' }];
        return step === 0 ? calls(0, "look") : say("It is Oslo.");
      }),
      { tools: kit.everyPolicy, options: { structuredFinalize: true, output: cityFormat } },
    ),
  cut_in_prepared_step: (kit) =>
    kit.engine(kit.inOrder(calls(0, "look"), calls(1, "pay"), say("Both are answered.")), {
      tools: kit.everyPolicy,
      options: {
        prepareStep: ({ step }) => (step === 1 ? { tools: ["pay"], instructions: "Only pay." } : null),
      },
    }),
  handed_over: (kit) => kit.engine(kit.inOrder(calls(0, "pay"), say("Paid.")), { tools: kit.everyPolicy }),
  awaiting_approval: (kit) =>
    kit.engine(kit.inOrder(calls(0, "charge", "wipe", "refund"), say("Charged, not wiped, refunded.")), {
      tools: [kit.gated("charge"), kit.gated("wipe"), kit.gated("refund")],
    }),
  approved: (kit) => kit.engine(kit.inOrder(calls(0, "charge"), say("Charged.")), { tools: [kit.gated("charge")] }),
  awaiting_answer: (kit) =>
    kit.engine(kit.inOrder(calls(0, "ask", "look"), say("Oslo it is.")), {
      tools: [...kit.everyPolicy, kit.asking("user_message")],
    }),
  awaiting_result_answer: (kit) =>
    kit.engine(kit.inOrder(calls(0, "ask"), say("Oslo it is.")), { tools: [kit.asking("tool_result")] }),
  awaiting_results: (kit) =>
    kit.engine(kit.inOrder(calls(0, "lift", "look", "carry"), say("Lifted and carried.")), {
      tools: [...kit.everyPolicy, kit.manual("lift"), kit.manual("carry")],
    }),
  awaiting_token: (kit) =>
    kit.engine(kit.inOrder(calls(0, "charge"), say("Charged by token.")), { tools: [kit.gated("charge")] }),
  used_token: (kit) =>
    kit.engine(kit.inOrder(calls(0, "lift"), say("Lifted by token.")), { tools: [kit.manual("lift")] }),
  awaiting_deadline: (kit) =>
    kit.engine(kit.inOrder(calls(0, "lift"), say("It was not lifted in time.")), { tools: [kit.manual("lift")] }),
  awaiting_failing_deadline: (kit) =>
    kit.engine(kit.inOrder(calls(0, "lift"), say("After the deadline.")), { tools: [kit.manual("lift")] }),
  cut_in_child: (kit) => {
    const child = kit.model(({ step }) => (step === 0 ? calls(7, "pay") : say("The child paid.")), "child");
    const agent = kit.engine(child, { tools: kit.everyPolicy });
    return kit.engine(
      kit.model(({ step }) =>
        step === 0
          ? [{ type: "tool_call", name: "delegate", id: "c0-0", arguments: { task: "Pay." } }]
          : say("Delegated."),
      ),
      { tools: [agentTool({ name: "delegate", description: "Delegates.", engine: agent })] },
    );
  },
  cut_in_unsafe_child: (kit) => {
    const child = kit.model(({ step }) => (step === 0 ? calls(7, "look") : say("The child looked.")), "child");
    const agent = kit.engine(child, { tools: kit.everyPolicy });
    const delegate = kit.tool("delegate", "never", {
      handler: async (_, { runChild }) => (await runChild(agent, "Look.")).finalResponse?.outputText ?? "",
    });
    return kit.engine(kit.inOrder(calls(0, "delegate"), say("The outcome is unknown.")), { tools: [delegate] });
  },
  waiting_child: (kit) => {
    const child = kit.model(
      ({ step }) => (step === 0 ? calls(7, "look", "charge") : say("The child charged.")),
      "child",
    );
    const agent = kit.engine(child, { tools: [...kit.everyPolicy, kit.gated("charge")] });
    return kit.engine(
      kit.model(({ step }) =>
        step === 0
          ? [{ type: "tool_call", name: "delegate", id: "c0-0", arguments: { task: "Charge." } }]
          : say("Delegated."),
      ),
      { tools: [agentTool({ name: "delegate", description: "Delegates.", engine: agent })] },
    );
  },
  steered: (kit) => kit.engine(kit.inOrder(calls(0, "look"), say("Noted.")), { tools: kit.everyPolicy }),
  cut_after_claim: (kit) => kit.engine(kit.inOrder(calls(0, "look"), say("Noted once.")), { tools: kit.everyPolicy }),
  next_turn: (kit) =>
    kit.engine(kit.inOrder(say("First."), calls(1, "look"), say("From the input.")), { tools: kit.everyPolicy }),
  unsettled_cancel: (kit) => kit.engine(kit.inOrder(calls(0, "look"), say("Not reached.")), { tools: kit.everyPolicy }),
  parked_to_restart: (kit) =>
    kit.engine(kit.inOrder(calls(0, "pay"), calls(1, "look"), say("Restarted.")), { tools: kit.everyPolicy }),
  parked_to_close: (kit) =>
    kit.engine(kit.inOrder(calls(0, "pay"), calls(1, "look"), say("After the end.")), { tools: kit.everyPolicy }),
  cut_after_restart: (kit) =>
    kit.engine(kit.inOrder(calls(0, "pay"), calls(1, "look"), say("Restarted twice.")), { tools: kit.everyPolicy }),
  cancelled: (kit) => kit.engine(kit.inOrder(calls(0, "look"), say("After the cancel.")), { tools: kit.everyPolicy }),
  halted_by_budget: (kit) =>
    kit.engine(kit.inOrder(calls(0, "look"), calls(1, "pay"), say("Within the next budget.")), {
      tools: kit.everyPolicy,
      options: { budgets: { tokens: 20 } },
    }),
  failed: (kit) =>
    kit.engine(
      kit.model(({ request }) =>
        request.messages.filter(({ role }) => role === "user").length > 1
          ? say("It works again.")
          : [{ type: "error", reason: "authentication_failed", status: 401 }],
      ),
      { retry: false },
    ),
  completed: (kit) =>
    kit.engine(
      kit.model(({ step }) => {
        if (step === 1) return calls(1, "pay");
        return [{ type: "reasoning", text: "They thank me." }, ...say(`Reply ${step}.`)];
      }),
      { tools: kit.everyPolicy, instructions: "Be brief.", params: { temperature: 0 } },
    ),
  forked: (kit) => kit.engine(kit.inOrder(calls(0, "charge"), say("Charged.")), { tools: [kit.gated("charge")] }),
  single_steps: (kit) =>
    kit.engine(kit.inOrder(say("First."), calls(1, "pay"), say("Third.")), { tools: kit.everyPolicy }),
  of_a_tenant: (kit) => kit.engine(kit.inOrder(calls(0, "charge"), say("Charged.")), { tools: [kit.gated("charge")] }),
  retained: (kit) => kit.engine(kit.inOrder(calls(0, "pay"), say("Paid.")), { tools: kit.everyPolicy }),
  deleted: (kit) => kit.engine(kit.inOrder(say("Soon deleted."))),
  waiting_cell: (kit) =>
    kit.engine(kit.inOrder(cell(["look", "charge"], ["pay"]), say("The cell is done.")), {
      tools: [...kit.everyPolicy, kit.gated("charge")],
      protocol: { type: "code", executor: kit.executor },
    }),
  cut_in_cell: (kit) =>
    kit.engine(kit.inOrder(cell(["look", "pay"], ["send"]), say("The cell is done.")), {
      tools: kit.everyPolicy,
      protocol: { type: "code", executor: kit.executor },
    }),
} as const satisfies { readonly [name: string]: (kit: EngineKit) => Engine };

export type EngineName = keyof typeof builders;

/** The names of the engines, which are also the ids of their sessions. */
export const engineNames = Object.keys(builders).filter(isEngineName);

function isEngineName(name: string): name is EngineName {
  return Object.hasOwn(builders, name);
}

/** All engines, for one process. */
export function museumEngines(probe: Probe): { readonly [name: string]: Engine } {
  return Object.fromEntries(Object.entries(builders).map(([name, make]) => [name, make(new EngineKit(name, probe))]));
}
