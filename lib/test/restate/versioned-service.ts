// A service process of one version of the code: the model answers with the version of the code that called it and the
// instructions in the request. The tool `wait` returns when a file exists that has the name of the session; another
// file has one character for each of its calls.

import type { Adapter } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { appendFileSync, existsSync } from "node:fs";
import { join } from "node:path";

import { engine, tool, assistant, messageText } from "everturn";
import { runtime } from "everturn/runtime";

import { openStorage } from "../long/world.ts";
import { serveUntilStopped } from "./service-process.ts";

const [, , database = "", folder = "", port = "", ingress = "", version = ""] = process.argv;
const { storage, close } = await openStorage(database);
const adapter: Adapter = {
  provider: "versioned",
  stream: (request) => ({
    async *[Symbol.asyncIterator](): AsyncGenerator<readonly ModelEvent[]> {
      yield [{ type: "message_started", message: assistant("") }];
      const [instructions] = request.messages.filter(({ role }) => role === "system").map(messageText);
      const works = request.messages.at(-1)?.role === "user";
      const text = works ? "" : `code ${version}, instructions ${instructions ?? "none"}`;
      const call = { id: "wait-1", name: "wait", providerExecuted: false } as const;
      if (works) {
        yield [
          { type: "tool_call_started", ...call },
          { type: "tool_call_completed", ...call, arguments: {}, rawArguments: "{}", provider: null, metadata: {} },
        ];
      }
      yield [
        {
          type: "message_completed",
          message: assistant(text),
          finishReason: works ? "tool_calls" : "stop",
          rawFinishReason: null,
          requestId: null,
          responseId: null,
          model: "m",
          route: { provider: "versioned", endpoint: "versioned", model: "m" },
          output: null,
          metadata: {},
        },
      ];
    },
  }),
};
const wait = tool({
  name: "wait",
  description: "Waits.",
  schema: { type: "object" },
  replay: "safe",
  handler: async (_, { signal, context }) => {
    const name = "gate" in context ? String(context.gate) : "";
    appendFileSync(join(folder, `${name}.calls`), ".");
    while (!signal.aborted && !existsSync(join(folder, name))) await new Promise((resolve) => setTimeout(resolve, 20));
    return "done";
  },
});
const engines = { default: engine({ adapter, model: "versioned:m", instructions: version, tools: [wait] }) };
const sessions = runtime({ host: storage, engines, drive: false });
await serveUntilStopped({ sessions, port, ingress, graceMs: 500, close });
