// The floor: `fetch`, a split at blank lines and `JSON.parse`. No validation, no retries, no events.

import type { Contender, Protocol } from "./scenario.ts";

import { add, instructions, prompt, toolDescription, toolName, toolSchema } from "./scenario.ts";

type Call = { readonly id: string; readonly arguments: string };
/** The fields that are read from events of the three protocols. */
type ProviderEvent = {
  readonly type?: string;
  readonly delta?: string & { readonly type: string; readonly text: string; readonly partial_json: string };
  readonly item?: { readonly type: string; readonly call_id: string; readonly arguments: string };
  readonly content_block?: { readonly type: string; readonly id: string };
  readonly choices?: readonly {
    readonly delta: {
      readonly content?: string;
      readonly tool_calls?: readonly { readonly id?: string; readonly function: { readonly arguments: string } }[];
    };
  }[];
};

type Dialect = {
  readonly path: string;
  readonly body: (model: string, history: readonly object[], hasTools: boolean) => object;
  readonly read: (event: ProviderEvent, calls: { id: string; arguments: string }[]) => string | undefined;
  /** The messages that a call and its result add to the history. */
  readonly after: (call: Call, result: string) => readonly object[];
};

const user = { role: "user", content: prompt };
const definition = { name: toolName, description: toolDescription, parameters: toolSchema };

const dialects: { readonly [name in Protocol]: Dialect } = {
  chat: {
    path: "/chat/completions",
    body: (model, history, hasTools) => ({
      model,
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: "system", content: instructions }, user, ...history],
      ...(hasTools ? { tools: [{ type: "function", function: definition }] } : {}),
    }),
    read: ({ choices }, calls) => {
      const part = choices?.[0]?.delta;
      for (const { id, function: piece } of part?.tool_calls ?? []) {
        if (id !== undefined) calls.push({ id, arguments: "" });
        const call = calls.at(-1);
        if (call !== undefined) call.arguments += piece.arguments;
      }
      return part?.content;
    },
    after: (call, content) => [
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: call.id, type: "function", function: { name: toolName, arguments: call.arguments } }],
      },
      { role: "tool", tool_call_id: call.id, content },
    ],
  },
  responses: {
    path: "/responses",
    body: (model, history, hasTools) => ({
      model,
      stream: true,
      store: false,
      instructions,
      input: [user, ...history],
      ...(hasTools ? { tools: [{ type: "function", ...definition }] } : {}),
    }),
    read: ({ type, delta, item }, calls) => {
      if (type === "response.output_text.delta") return delta;
      if (type === "response.output_item.done" && item?.type === "function_call")
        calls.push({ id: item.call_id, arguments: item.arguments });
      return undefined;
    },
    after: (call, output) => [
      { type: "function_call", call_id: call.id, name: toolName, arguments: call.arguments },
      { type: "function_call_output", call_id: call.id, output },
    ],
  },
  anthropic: {
    path: "/messages",
    body: (model, history, hasTools) => ({
      model,
      stream: true,
      max_tokens: 4096,
      system: instructions,
      messages: [user, ...history],
      ...(hasTools ? { tools: [{ name: toolName, description: toolDescription, input_schema: toolSchema }] } : {}),
    }),
    read: ({ type, delta, content_block: block }, calls) => {
      if (type === "content_block_start" && block?.type === "tool_use") calls.push({ id: block.id, arguments: "" });
      if (type !== "content_block_delta") return undefined;
      const call = calls.at(-1);
      if (delta?.type === "input_json_delta" && call !== undefined) call.arguments += delta.partial_json;
      return delta?.type === "text_delta" ? delta.text : undefined;
    },
    after: (call, content) => [
      {
        role: "assistant",
        content: [{ type: "tool_use", id: call.id, name: toolName, input: JSON.parse(call.arguments) }],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content }] },
    ],
  },
};

const headers = { "content-type": "application/json", authorization: "Bearer k" };

async function request(url: string, body: object, onEvent: (event: ProviderEvent) => void): Promise<void> {
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok || response.body === null) throw new Error(`the provider answered with status ${response.status}`);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let start = 0;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n", start)) {
      const data = text.startsWith("data: ", start) ? start + 6 : text.indexOf("\ndata: ", start) + 7;
      if (!text.startsWith("[DONE]", data)) onEvent(JSON.parse(text.slice(data, end)));
      start = end + 2;
    }
    text = text.slice(start);
  }
}

export function raw(protocol: Protocol): Contender {
  const { path, body, read, after } = dialects[protocol];
  const turn = async (url: string, sent: object, onDelta: (text: string) => void) => {
    const calls: { id: string; arguments: string }[] = [];
    await request(url, sent, (event) => {
      const text = read(event, calls);
      if (text !== undefined && text !== null && text !== "") onDelta(text);
    });
    return calls;
  };
  return {
    name: "raw fetch",
    answer: async (baseURL, model, onDelta) => {
      await turn(baseURL + path, body(model, [], false), onDelta);
    },
    loop: async (baseURL, model, _maxTurns, onDelta) => {
      const history: object[] = [];
      for (;;) {
        const calls = await turn(baseURL + path, body(model, history, true), onDelta);
        if (calls.length === 0) return;
        for (const call of calls) history.push(...after(call, add(JSON.parse(call.arguments))));
      }
    },
  };
}
