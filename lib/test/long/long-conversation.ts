// A conversation of 2,000 turns with tool results of up to 200 KB, against a provider whose window is 32,000 tokens:
// with a context policy no request is refused, and the input of a turn does not grow. The prefix that the provider has
// cached changes twice for each frame: by the frame, and by pruning. The same script with the oldest messages cut
// off before each request (naive trimming) is measured beside it.

import type { ContextPolicy } from "everturn";
import type { Middleware } from "everturn/middleware";

import { engine, openaiCompatible, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";

import { CountingProvider } from "../counting-provider.ts";
import { trimming } from "../naive-trimming.ts";

const turns = 2000;
const comparedTurns = 400;
const window = 32_000;

function check(holds: boolean, rule: string): void {
  if (holds) return;
  console.error(`WRONG: ${rule}`);
  process.exitCode = 1;
}

type Turn = { readonly ms: number; readonly input: number; readonly uncached: number };

async function converse(
  turns: number,
  fields: { readonly contextPolicy?: ContextPolicy; readonly middleware?: readonly Middleware[] },
) {
  let size = 0;
  const provider = new CountingProvider({
    window,
    reply: (messages) =>
      messages.at(-1)?.role === "tool" ? { text: "done" } : { call: "lookup", arguments: { of: "it" } },
    summary: (_, index) => `Summary ${index}: the code word is heron.`,
  });
  await provider.listen();
  const lookup = tool({
    name: "lookup",
    description: "Looks something up.",
    schema: { type: "object" },
    handler: () => "result ".repeat(Math.ceil(size / 7)),
  });
  const agent = engine({
    adapter: openaiCompatible({ baseURL: provider.baseURL }),
    model: "counting",
    instructions: "You look things up.",
    tools: [lookup],
    retry: false,
    options: { maxToolResultLength: fields.contextPolicy === undefined ? 8_000 : 1_000_000 },
    ...fields,
  });
  const host = memoryStorage();
  const sessions = runtime({ host, engines: { default: agent } });
  const measured: Turn[] = [];
  let failed = 0;
  for (let turn = 0; turn < turns; turn += 1) {
    size = turn % 20 === 7 ? 200_000 : 1_000 + (turn % 5) * 1_500;
    const first = provider.requests.length;
    const began = performance.now();
    const text = `question ${turn}`;
    const handle = turn === 0 ? await sessions.start(text, { id: "s" }) : await sessions.reply("s", text);
    if ((await handle.result).haltedReason !== "completed") failed += 1;
    const requests = provider.requests.slice(first);
    const sum = (of: (request: (typeof requests)[number]) => number) =>
      requests.reduce((total, request) => total + of(request), 0);
    const uncached = sum(({ tokens, cached }) => tokens - cached);
    measured.push({ ms: performance.now() - began, input: sum(({ tokens }) => tokens), uncached });
  }
  const { requests } = provider;
  const refused = requests.filter(({ status }) => status !== 200).length;
  const summaries = requests.filter(({ isSummary }) => isSummary).length;
  const [frames = []] = await host.read([{ table: "frames", prefix: [] }]);
  const messages = (await sessions.get("s"))?.session.thread.messages.length ?? 0;
  await sessions.close();
  await provider.close();
  const total = (of: (turn: Turn) => number, part: readonly Turn[] = measured) =>
    part.reduce((sum, turn) => sum + of(turn), 0);
  const [input, uncached] = [total((turn) => turn.input), total((turn) => turn.uncached)];
  // Requests of turns whose prefix is not the request of a turn before it. A request for a summary that does not fit is
  // shortened on its own.
  const ofTurns = requests.filter(({ isSummary }) => !isSummary);
  const changes = ofTurns.filter(({ messages }, index) => {
    const before = ofTurns[index - 1]?.messages ?? [];
    return before.some((message, position) => messages[position] !== message);
  });
  const prefixChanges = changes.length;
  const perTurn = (tokens: number): number => Math.round(tokens / turns);
  console.log(
    `${requests.length} requests, ${refused} refused, ${summaries} summaries, ${frames.length} frames, the prefix changed ${prefixChanges} times; a turn: ${perTurn(input)} input tokens, ${perTurn(uncached)} of them not cached`,
  );
  const growth =
    total((turn) => turn.input, measured.slice(-400)) / total((turn) => turn.input, measured.slice(200, 600));
  return {
    failed,
    refused,
    summaries,
    frames: frames.length,
    messages,
    uncached: uncached / turns,
    prefixChanges,
    growth,
  };
}

const policy = await converse(turns, { contextPolicy: { window } });
check(policy.failed === 0 && policy.refused === 0, "no turn fails, and no request is refused");
check(policy.messages === 4 * turns, "the history stays whole");
check(policy.frames === policy.summaries && policy.frames > 0, "each summary makes one frame");
check(policy.growth < 1.1, "the input of a turn does not grow");
check(policy.prefixChanges <= 2 * policy.frames, "the prefix changes at most twice for each frame");

const trimmed = await converse(comparedTurns, { middleware: [trimming(window)] });
check(trimmed.failed === 0, "trimming fits into the window");
check(policy.uncached < trimmed.uncached / 2, "a turn has less than half of the uncached tokens of naive trimming");
