// A provider for tests that refuses what the real one refuses. It is a `fetch` function, so nothing between the adapter
// and the network is replaced.
//
// Theory of operation
//   1. The path of the address tells the API. Other paths and other methods than POST are answered 404.
//   2. violations() checks the request. If it violates a rule, the answer is the refusal of the provider, and no script
//      is used.
//   3. Otherwise the next script, or `reply`, answers.
//   4. For OpenAI Responses the items of requests and replies are kept under the id of the response and of the
//      conversation, as the API stores them. A later request that names one of them is checked together with the stored
//      items.

import type { FetchLike } from "../core/engine/internal.ts";
import type { Json, JsonObject } from "../core/model/internal.ts";
import type { ProviderApi, Violation } from "./provider-rules/rule.ts";
import type { ProviderStep } from "./script-replies.ts";

import { MisuseError, parseJson } from "../core/model/internal.ts";
import { objectOf, objectsOf, textOrEmpty } from "./provider-rules/rule.ts";
import { refusalOf, violations } from "./provider-rules/violations.ts";
import { scriptedReply } from "./script-replies.ts";

/** Options of {@link strictProvider}. One of the two is required. */
type StrictProviderOptions = {
  /** One script for each accepted request, in order. Without a script left, a request is answered 400. */
  readonly scripts?: readonly (readonly ProviderStep[])[];
  /** Answers accepted requests, in place of scripts: recorded replies, or the real `fetch`. */
  readonly reply?: FetchLike;
};

/** A provider that refuses requests which the documented rules of its API forbid. */
export type StrictProvider = {
  /** For the option `fetch` of an adapter. */
  readonly fetch: FetchLike;
  /** All requests, in order. */
  readonly requests: readonly {
    readonly api: ProviderApi;
    readonly body: JsonObject;
    readonly violations: readonly Violation[];
  }[];
  /** The violations of all requests, in order. */
  readonly refusals: readonly Violation[];
  /** Throws if a request was refused or a script was not used. */
  readonly assertUsedUp: () => void;
};

/** The types of the steps of a script. */
const stepTypes: { readonly [T in ProviderStep["type"]]: true } = {
  text: true,
  reasoning: true,
  tool_call: true,
  usage: true,
};

/**
 * A provider for tests that answers 400, in the words of the provider, to requests which the documented rules of OpenAI
 * Responses, OpenAI Chat Completions, Anthropic Messages or Gemini forbid. {@link providerRules} lists the rules.
 *
 * @example
 * ```ts
 * import { anthropic, chat, engine } from "everturn";
 * import { strictProvider } from "everturn/testing";
 *
 * const provider = strictProvider({ scripts: [[{ type: "text", text: "Hello." }]] });
 * const agent = engine({ adapter: anthropic({ apiKey: "unused", fetch: provider.fetch }), model: "claude-opus-5" });
 * (await chat(agent, "Hi.")).finalResponse?.outputText; // => "Hello."
 * provider.refusals; // => []
 * ```
 */
export function strictProvider({ scripts, reply }: StrictProviderOptions): StrictProvider {
  if ((scripts === undefined) === (reply === undefined))
    throw new MisuseError("invalid_argument", "strictProvider takes `scripts` or `reply`, one of the two");
  const unknownStep = scripts?.flat().find(({ type }) => !Object.hasOwn(stepTypes, type));
  if (unknownStep !== undefined) {
    const message = `strictProvider has no step of type ${unknownStep.type}; its steps are ${Object.keys(stepTypes).join(", ")}, and \`reply\` returns any other response`;
    throw new MisuseError("invalid_argument", message);
  }
  const requests: {
    readonly api: ProviderApi;
    readonly body: JsonObject;
    readonly violations: readonly Violation[];
  }[] = [];
  const memory = new StoredItems();
  let used = 0;
  const answer = async (api: ProviderApi, url: string, init: RequestInit, body: JsonObject): Promise<Response> => {
    if (reply !== undefined) return reply(url, init);
    const script = scripts?.[used];
    if (script === undefined) {
      const message = `strictProvider has ${used} scripts, and this is accepted request ${used + 1}; add a script for it`;
      return Response.json({ error: { message, type: "invalid_request_error", code: 400 } }, { status: 400 });
    }
    used += 1;
    const scripted = scriptedReply(api, script, used);
    return Response.json(api === "openai-responses" ? { ...scripted, ...echoed(body) } : scripted);
  };
  const refusals = () => requests.flatMap((request) => request.violations);
  return {
    requests,
    get refusals() {
      return refusals();
    },
    fetch: async (url, init) => {
      const api = apiOf(url);
      const body = objectOf(parseJson(typeof init.body === "string" ? init.body : "")?.value);
      if (api === null || body === null || (init.method ?? "GET") !== "POST")
        return Response.json({ error: { message: `strictProvider has no route for ${url}` } }, { status: 404 });
      const stored = api === "openai-responses" ? await memory.itemsFor(body) : null;
      const headers = Object.fromEntries(new Headers(init.headers));
      const found = violations(api, { body, headers, url, ...(stored === null ? {} : { stored }) });
      requests.push({ api, body, violations: found });
      const [first] = found;
      if (first !== undefined) {
        const refusal = refusalOf(api, first);
        return Response.json(refusal.body, { status: refusal.status });
      }
      const response = await answer(api, url, init, body);
      if (api === "openai-responses") memory.keep(body, response.clone());
      return response;
    },
    assertUsedUp: () => {
      const [first] = refusals();
      if (first !== undefined)
        throw new Error(
          `strictProvider refused ${refusals().length} times; the first time (${first.rule}): ${first.message}`,
        );
      const left = (scripts?.length ?? 0) - used;
      if (left > 0) throw new Error(`${left} of ${scripts?.length ?? 0} scripts of strictProvider were not used`);
    },
  };
}

/** The API that an address belongs to. */
function apiOf(url: string): ProviderApi | null {
  const path = url.replace(/[?#].*$/, "");
  if (path.endsWith("/responses")) return "openai-responses";
  if (path.endsWith("/chat/completions")) return "openai-chat";
  if (path.endsWith("/messages")) return "anthropic-messages";
  return /:(?:streamG|g)enerateContent$/.test(path) ? "gemini" : null;
}

/** What the Responses API stores: the items of each response and of each conversation, by its id. */
class StoredItems {
  readonly #items = new Map<string, readonly JsonObject[]>();
  /** Replies that are still being read. */
  #reading: Promise<void> = Promise.resolve();

  /** The stored items that a request continues. `null`: the request continues nothing that is known here. */
  async itemsFor(body: JsonObject): Promise<readonly JsonObject[] | null> {
    const continues = body["previous_response_id"] !== undefined || body["conversation"] !== undefined;
    if (continues) await this.#reading;
    return this.#before(body);
  }

  /** Keeps the items of a request and of its reply, once the reply has been read. */
  keep(body: JsonObject, response: Response): void {
    if (body["store"] !== false) this.#reading = this.#read(this.#reading, body, response);
  }

  async #read(earlier: Promise<void>, body: JsonObject, response: Response): Promise<void> {
    const text = await response.text().catch(() => "");
    await earlier;
    const reply = replyIn(text);
    const items = [...(this.#before(body) ?? []), ...objectsOf(body["input"]), ...objectsOf(reply?.["output"])];
    for (const id of [textOrEmpty(reply?.["id"]), conversationOf(body)]) if (id !== "") this.#items.set(id, items);
  }

  #before(body: JsonObject): readonly JsonObject[] | null {
    return this.#items.get(textOrEmpty(body["previous_response_id"])) ?? this.#items.get(conversationOf(body)) ?? null;
  }
}

/** What a response of the Responses API repeats of its request: which stored conversation it belongs to. */
function echoed(body: JsonObject): JsonObject {
  const conversation = conversationOf(body);
  return {
    previous_response_id: body["previous_response_id"] ?? null,
    conversation: conversation === "" ? null : { id: conversation },
    store: body["store"] ?? true,
  };
}

function conversationOf(body: JsonObject): string {
  return textOrEmpty(body["conversation"]) || textOrEmpty(objectOf(body["conversation"])?.["id"]);
}

/** The response in a whole body, or in the last event of a stream. */
function replyIn(text: string): JsonObject | null {
  const whole = objectOf(parseJson(text)?.value);
  if (whole !== null) return whole;
  const events = text.split("\n").flatMap((line): readonly Json[] => {
    const event = line.startsWith("data:") ? parseJson(line.slice("data:".length)) : null;
    return event === null ? [] : [event.value];
  });
  const ended = events
    .map(objectOf)
    .findLast((event) => /^response\.(?:completed|incomplete)$/.test(textOrEmpty(event?.["type"])));
  return objectOf(ended?.["response"]);
}
