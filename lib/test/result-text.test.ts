// `text` on the result of every verb: the text of the last reply, and `""` without one.

import type { FakeStep } from "everturn";

import {
  calls,
  chat,
  engine,
  fake,
  generate,
  says,
  step,
  stream,
  streamGenerate,
  streamStep,
  tool,
  session,
} from "everturn";
import { collectChat } from "everturn/advanced";
import { createClient } from "everturn/client";
import { createHandler, inspection } from "everturn/http";
import { memoryStorage, replayTurn, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

const failing: readonly FakeStep[] = [{ type: "error", reason: "invalid_request" }];
const of = (...scripts: readonly (readonly FakeStep[])[]) => engine({ adapter: fake({ scripts }), retry: false });
const hello = () => of([says("Hel"), says("lo.")], [says("Bye.")]);

/** Each verb, run once with an engine; the result that it returns. */
const verbs: readonly (readonly [string, (agent: ReturnType<typeof of>) => Promise<{ readonly text: string }>])[] = [
  ["chat", (agent) => chat(agent, "hi")],
  ["generate", (agent) => generate(agent, "hi")],
  ["step", (agent) => step(agent, "hi")],
  ["stream", (agent) => stream(agent, "hi").result],
  ["streamGenerate", (agent) => streamGenerate(agent, "hi").result],
  ["streamStep", (agent) => streamStep(agent, "hi").result],
  ["collectChat", (agent) => collectChat(stream(agent, "hi"))],
  ["session.start", async (agent) => (await session.start(agent, "hi")).result],
  ["session.streamStart", async (agent) => (await session.streamStart(agent, "hi").result).result],
  ["session.step", async (agent) => (await session.step(agent, session.recover(await started()))).result],
  [
    "turn.result of the runtime",
    async (agent) => {
      const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
      return (await sessions.start("hi")).result;
    },
  ],
  [
    "turn.result of the client",
    async (agent) => {
      const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
      const handler = createHandler({ sessions, auth: [{ token: "a-token-of-the-test" }] });
      const fetch: typeof globalThis.fetch = (input, init) => handler(new Request(input, init));
      const client = createClient({ url: "http://localhost", token: "a-token-of-the-test", fetch });
      return (await client.start("hi")).result;
    },
  ],
  [
    "replayTurn",
    async (agent) => {
      const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
      await (
        await sessions.start("hi", { id: "s" })
      ).result;
      return (await replayTurn(await inspection(sessions.source).export("s"))).result;
    },
  ],
  [
    "context.runChild",
    async (agent) => {
      let text: string | null = null;
      const ask = tool({
        name: "ask",
        description: "Runs a turn inside the call.",
        schema: { type: "object" },
        handler: async (_, { runChild }) => {
          ({ text } = await runChild(agent, "hi"));
          return "asked";
        },
      });
      const scripts = [[calls("ask")], [says("Done.")]];
      await chat(engine({ adapter: fake({ scripts }), tools: [ask] }), "hi");
      if (text === null) throw new Error("the tool has not run");
      return { text };
    },
  ],
];

/** A session with one message that nothing has answered. */
async function started() {
  return (await session.start(of(failing), "hi")).session;
}

describe.each(verbs)("%s", (_, run) => {
  test("has the text of the reply", async () => {
    expect((await run(hello())).text).toBe("Hello.");
  });

  test("has an empty text without a reply", async () => {
    expect((await run(of(failing))).text).toBe("");
  });
});

const echo = tool({ name: "echo", description: "Says it back.", schema: { type: "object" }, handler: (said) => said });

test("hooks and haltWhen receive results with their text", async () => {
  const texts: string[] = [];
  const hooks = {
    afterStep: ({ text }: { readonly text: string }) => void texts.push(`step ${text}`),
    afterTurn: ({ text }: { readonly text: string }) => void texts.push(`turn ${text}`),
  };
  const haltWhen = ({ text }: { readonly text: string }) => (texts.push(`halt ${text}`), false);
  const scripts = [[says("Let me see."), calls("echo")], [says("Done.")]];
  await chat(engine({ adapter: fake({ scripts }), tools: [echo] }), "hi", { hooks, haltWhen });
  expect(texts).toEqual(["step Let me see.", "halt Let me see.", "step Done.", "turn Done."]);
});
