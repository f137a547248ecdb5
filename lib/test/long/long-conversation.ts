// A conversation of 2,000 turns with tool results of up to 200 KB, against a provider whose window is 32,000 tokens:
// with a context policy no request is refused, and the input of a turn does not grow.

import { engine, openaiCompatible, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";

import { CountingProvider } from "../counting-provider.ts";

const turns = 2000;
const window = 32_000;

function check(holds: boolean, rule: string): void {
  if (holds) return;
  console.error(`WRONG: ${rule}`);
  process.exitCode = 1;
}

type Turn = { readonly ms: number; readonly input: number; readonly uncached: number };

async function converse() {
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
    options: { maxToolResultLength: 1_000_000 },
    contextPolicy: { window },
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
  console.log(
    `${requests.length} requests, ${refused} refused, ${summaries} summaries, ${input} input tokens, ${uncached} of them not cached`,
  );
  const growth =
    total((turn) => turn.input, measured.slice(-400)) / total((turn) => turn.input, measured.slice(200, 600));
  return { failed, refused, summaries, frames: frames.length, messages, uncached, growth };
}

const policy = await converse();
check(policy.failed === 0 && policy.refused === 0, "no turn fails, and no request is refused");
check(policy.messages === 4 * turns, "the history stays whole");
check(policy.frames === policy.summaries && policy.frames > 0, "each summary makes one frame");
check(policy.growth < 1.1, "the input of a turn does not grow");
