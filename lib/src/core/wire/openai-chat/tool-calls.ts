// Assembles tool calls of Chat Completions from the fragments in `delta.tool_calls`.
//
// The API identifies the call of a fragment by `index`. Compatible servers omit the index, use 0 for all calls, repeat
// ids, or send the complete call a second time at its end (fixtures/wire/openai-chat/unruly-calls). The rules below
// assign fragments so that no call is lost, doubled or merged with another.
//
// Invariants
//   1. A fragment belongs to the call of its index; without an index, to the call of its id; without either, to the
//      newest call.
//   2. A fragment with a tool name that cannot continue that call (another id, or the arguments are complete already)
//      starts another call. With the same index and id it does so only if it is a complete object of another value,
//      because some servers repeat id and name in every fragment and the complete call at the end. Blank arguments
//      never start a call.
//   3. Ids are unique within a reply. A missing id is derived from the position of the call, so decoding again gives
//      the same id.
//   4. A call starts when its name is known, and is complete when the reply ends.
//   5. Fields of a call that the API does not define (signatures) are kept as replay data. The encoder decides which of
//      them are sent back.
//   6. The cost of a fragment is linear in its own length: `BraceTracker` follows the JSON incrementally, and the
//      arguments are parsed once, when they are complete. Parsing after every fragment would be quadratic.

import type { Json, JsonObject, ModelEvent } from "../../model/internal.ts";
import type { ReplyBuilder } from "../reply-builder.ts";

import { isJsonArray, maxToolValueDepth } from "../../model/internal.ts";
import { numberAt, objectAt, textAt } from "../fields.ts";
import { parseArguments } from "../reply-builder.ts";

type CallState = {
  /** The key of the call in the builder. */
  readonly key: string;
  id: string | null;
  name: string;
  argumentsText: string;
  /** A custom tool: its input is text and no JSON. */
  isCustom: boolean;
  isStarted: boolean;
  readonly braces: BraceTracker;
  /** Cache of the parsed arguments; `undefined` before they were needed. */
  parsedArguments: JsonObject | null | undefined;
  readonly fields: Map<string, Json>;
};

/** One entry of `delta.tool_calls`. */
type CallFragment = { readonly id: string | null; readonly name: string; readonly text: string };

const standardFields = new Set(["id", "index", "type", "function", "custom"]);

export class CallReader {
  readonly #builder: ReplyBuilder;
  readonly #calls: CallState[] = [];
  readonly #byIndex = new Map<number, CallState>();
  /** The newest call with an id. */
  readonly #byId = new Map<string, CallState>();

  constructor(builder: ReplyBuilder) {
    this.#builder = builder;
  }

  get isEmpty(): boolean {
    return this.#calls.length === 0;
  }

  /** Reads one entry of `tool_calls`. In a whole reply (`isWhole`) every entry is a call of its own. */
  readEntry(entry: JsonObject, isWhole: boolean): readonly ModelEvent[] {
    const custom = customOf(entry);
    const inner = custom ?? objectAt(entry, "function");
    const id = textAt(entry, "id");
    const fragment: CallFragment = {
      id: id === "" ? null : id,
      name: textAt(inner, "name") ?? "",
      text: argumentsText(inner?.[custom === null ? "arguments" : "input"]),
    };
    const index = isWhole ? null : numberAt(entry, "index");
    const call = isWhole ? this.#add(null) : this.#find(index, fragment);
    if (call === null) return [];
    call.isCustom ||= custom !== null;
    call.id ??= fragment.id;
    if (call.id !== null) this.#byId.set(call.id, call);
    if (call.name === "") call.name = fragment.name;
    for (const [key, value] of Object.entries(entry)) {
      if (!standardFields.has(key) && value !== null) call.fields.set(key, value);
    }
    return this.#append(call, fragment);
  }

  /** Completes all calls at the end of the reply, also those without a name. */
  end(): readonly ModelEvent[] {
    return this.#calls.flatMap((call) => {
      const startEvents = call.isStarted ? [] : this.#start(call);
      const isPlain = !call.isCustom && call.fields.size === 0;
      const fields = Object.fromEntries(call.fields);
      const endEvent = this.#builder.completeCall(call.key, {
        ...(call.isCustom ? { arguments: { input: call.argumentsText } } : { raw: call.argumentsText }),
        provider: isPlain ? null : this.#builder.replayData({ fields, custom: call.isCustom }),
      });
      return endEvent === null ? startEvents : [...startEvents, endEvent];
    });
  }

  #append(call: CallState, fragment: CallFragment): readonly ModelEvent[] {
    const addedText = isRepeatedCall(call, fragment) ? "" : fragment.text;
    call.argumentsText += addedText;
    call.braces.follow(addedText);
    if (!call.isStarted) return call.name === "" ? [] : this.#start(call);
    const delta = addedText === "" ? null : this.#builder.appendArguments(call.key, addedText);
    return delta === null ? [] : [delta];
  }

  #start(call: CallState): readonly ModelEvent[] {
    call.isStarted = true;
    const started = this.#builder.startCall(call.id ?? `call_${call.key}`, call.name, { key: call.key });
    const delta = call.argumentsText === "" ? null : this.#builder.appendArguments(call.key, call.argumentsText);
    return delta === null ? [started] : [started, delta];
  }

  #find(index: number | null, fragment: CallFragment): CallState | null {
    const { id, name } = fragment;
    const byId = id === null ? undefined : this.#byId.get(id);
    const existing =
      index === null ? (byId ?? (id === null ? this.#calls.at(-1) : undefined)) : this.#byIndex.get(index);
    if (existing !== undefined && !startsAnotherCall(existing, fragment, index !== null)) return existing;
    return existing === undefined && index === null && id === null && name === "" ? null : this.#add(index);
  }

  #add(index: number | null): CallState {
    const key = `${this.#calls.length}`;
    const call: CallState = {
      key,
      id: null,
      name: "",
      argumentsText: "",
      isCustom: false,
      isStarted: false,
      braces: new BraceTracker(),
      parsedArguments: undefined,
      fields: new Map(),
    };
    this.#calls.push(call);
    if (index !== null) this.#byIndex.set(index, call);
    return call;
  }
}

/** Does the fragment start another call (invariant 2)? */
function startsAnotherCall(existing: CallState, fragment: CallFragment, hasIndex: boolean): boolean {
  const { id, name, text } = fragment;
  if (name === "") return false;
  if (id !== null && existing.id !== null && id !== existing.id) return true;
  if (!hasIndex && existing.name !== "" && existing.name !== name) return true;
  if (
    existing.isCustom ||
    text.trim() === "" ||
    completeArguments(existing) === null ||
    isRepeatedCall(existing, fragment)
  )
    return false;
  const hasSameIndexAndId = hasIndex && id !== null && id === existing.id;
  return !hasSameIndexAndId || parseArguments(text) !== null;
}

/**
 * Is the fragment the complete call a second time? The values are compared, because servers may format the JSON
 * differently.
 */
function isRepeatedCall(existing: CallState, { id, text }: CallFragment): boolean {
  if (id === null || id !== existing.id || existing.isCustom || text.trim() === "") return false;
  const currentArguments = completeArguments(existing);
  const fragmentArguments = currentArguments === null ? null : parseArguments(text);
  return (
    currentArguments !== null &&
    fragmentArguments !== null &&
    isEqual(currentArguments, fragmentArguments, maxToolValueDepth)
  );
}

/** The arguments of a call if its JSON object is complete, otherwise `null`. */
function completeArguments(call: CallState): JsonObject | null {
  if (!call.braces.areClosed) return null;
  if (call.parsedArguments === undefined) call.parsedArguments = parseArguments(call.argumentsText);
  return call.parsedArguments;
}

/**
 * Tracks the braces of JSON text that arrives in pieces. `areClosed`: the first object is complete, so parsing it can
 * succeed.
 */
class BraceTracker {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #areClosed = false;

  get areClosed(): boolean {
    return this.#areClosed;
  }

  follow(addedText: string): void {
    for (let index = 0; index < addedText.length && !this.#areClosed; index += 1)
      this.#consume(addedText.charAt(index));
  }

  #consume(char: string): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (this.#isInString) {
      if (char === "\\") this.#isEscaped = true;
      else if (char === '"') this.#isInString = false;
    } else if (char === '"') this.#isInString = true;
    else if (char === "{") this.#depth += 1;
    else if (char === "}") {
      this.#depth -= 1;
      this.#areClosed = this.#depth === 0;
    }
  }
}

/** Compares two JSON values. Values nested deeper than `remainingDepth` are never equal. */
function isEqual(first: Json, second: Json, remainingDepth: number): boolean {
  if (first === second) return true;
  if (
    typeof first !== "object" ||
    typeof second !== "object" ||
    first === null ||
    second === null ||
    remainingDepth === 0
  )
    return false;
  if (isJsonArray(first) || isJsonArray(second)) {
    if (!isJsonArray(first) || !isJsonArray(second) || first.length !== second.length) return false;
    return first.every((item, index) => isEqual(item, second[index] ?? null, remainingDepth - 1));
  }
  const keys = Object.keys(first);
  return (
    keys.length === Object.keys(second).length &&
    keys.every(
      (key) => Object.hasOwn(second, key) && isEqual(first[key] ?? null, second[key] ?? null, remainingDepth - 1),
    )
  );
}

/**
 * The custom tool call of an entry. A server that sends every field of the API (Snowflake) has an empty `custom` beside
 * `function`.
 */
function customOf(entry: JsonObject): JsonObject | null {
  const custom = objectAt(entry, "custom");
  const isUnused =
    textAt(custom, "name") === "" && textAt(custom, "input") === "" && objectAt(entry, "function") !== null;
  return isUnused ? null : custom;
}

/** The arguments as JSON text. Some servers send the object instead of text. */
function argumentsText(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
