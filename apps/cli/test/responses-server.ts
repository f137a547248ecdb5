// A loopback server that implements the OpenAI Responses API for the scenario of the demo. Stateless, as a provider:
// the reply depends on the request alone. It records the requests.

import type { JsonObject } from "everturn";
import type { IncomingMessage, Server, ServerResponse } from "node:http";

import { createServer } from "node:http";

type Asked = { readonly authorization: string; readonly tools: number };

export type ResponsesServer = { readonly server: Server; readonly url: string; readonly requests: readonly Asked[] };

/** `works`: calls the tools, and stalls in the middle of its first last reply until the client disconnects. */
type Manner = "works" | "refuses" | "denies";

type Say = { readonly text: string; readonly calls: readonly (readonly [name: string, args: JsonObject])[] };

export async function responsesServer(manner: Manner): Promise<ResponsesServer> {
  const requests: Asked[] = [];
  let isFirstEnd = true;
  const serve = async (asked: IncomingMessage, answer: ServerResponse): Promise<void> => {
    const body: { readonly input: readonly JsonObject[]; readonly tools?: readonly JsonObject[] } = JSON.parse(
      await bodyText(asked),
    );
    const authorization = asked.headers.authorization ?? "";
    requests.push({ authorization, tools: body.tools?.length ?? 0 });
    if (manner === "denies") {
      const error = { message: `Incorrect API key provided: ${authorization.slice(7)}.`, code: "invalid_api_key" };
      answer.writeHead(401, { "content-type": "application/json" }).end(JSON.stringify({ error }));
      return;
    }
    const say = manner === "refuses" ? { text: "I would rather not.", calls: [] } : next(body.input);
    answer.writeHead(200, { "content-type": "text/event-stream" });
    const isEnd = manner === "works" && say.calls.length === 0;
    if (isEnd && isFirstEnd) {
      isFirstEnd = false;
      answer.write(pieces(say).slice(0, 5).join(""));
      return;
    }
    answer.end(pieces(say).join(""));
  };
  const server = createServer((asked, answer) => void serve(asked, answer));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return { server, url: `http://127.0.0.1:${address.port}/v1`, requests };
}

/** The next step of the scenario, from the calls that the input contains. */
function next(input: readonly JsonObject[]): Say {
  const called = new Set(input.filter(({ type }) => type === "function_call").map(({ name }) => name));
  const order = "1042";
  if (!called.has("find_order")) {
    const calls = ["find_order", "track_parcel"].map((name) => [name, { order }] as const);
    return { text: "Let me look.", calls };
  }
  if (!called.has("ask_customer")) return { text: "", calls: [["ask_customer", { question: "Card or credit?" }]] };
  if (!called.has("refund")) return { text: "", calls: [["refund", { order, amount: "189.00 EUR", to: "card" }]] };
  return { text: "The money is on its way to your card, and nothing has to be sent back.", calls: [] };
}

function pieces({ text, calls }: Say): readonly string[] {
  const message = {
    type: "message",
    id: "msg_0",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text, annotations: [] }],
  };
  const functions = calls.map(([name, args], index) => ({
    type: "function_call",
    id: `fc_${name}`,
    call_id: `call_${name}_${index}`,
    name,
    arguments: JSON.stringify(args),
    status: "completed",
  }));
  const output = text === "" ? functions : [message, ...functions];
  const usage = { input_tokens: 10, output_tokens: 5 };
  const response = { id: "resp_1", model: "gpt-test", status: "completed", output, usage };
  return [
    named({ type: "response.created", response: { ...response, status: "in_progress", output: [] } }),
    ...output.flatMap((item, output_index) => itemPieces(item, output_index, text)),
    named({ type: "response.completed", response }),
  ];
}

function itemPieces(item: JsonObject, output_index: number, text: string): readonly string[] {
  const isText = item["type"] === "message";
  const begun = isText ? { ...item, content: [] } : { ...item, arguments: "" };
  const about = { output_index, item_id: item["id"] ?? "", content_index: 0 };
  const type = isText ? "response.output_text.delta" : "response.function_call_arguments.delta";
  const deltas = isText ? (text.match(/.{1,12}/g) ?? []) : [String(item["arguments"])];
  return [
    named({ type: "response.output_item.added", output_index, item: begun }),
    ...deltas.map((delta) => named({ type, ...about, delta })),
    named({ type: "response.output_item.done", output_index, item }),
  ];
}

function named(data: JsonObject & { readonly type: string }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

async function bodyText(asked: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of asked) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}
