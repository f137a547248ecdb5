// Tool calls of Chat Completions as they arrive in pieces.
//
// Rules:
//   1. A piece belongs to the call of its index; without an index, to the call of its id; without either, to the newest.
//   2. A piece that names a tool and cannot go on with the call it belongs to (another id, or arguments that are whole already) is
//      another call: some servers number all calls 0, or repeat ids. Under the same index and id only a whole object of another value is
//      one: some servers repeat id and name with every piece, and send the whole call once more at its end. Blanks never are.
//   3. Ids are unique within a reply. Missing ones are made up from the place of the call, the same on every reading.
//   4. A call begins when its name is known, and is whole when the reply ends.
//   5. Fields of a call that are none of ours (signatures) are kept for the way back.
//   6. A piece costs what it is long, however much came before it: what was heard is followed as it grows, and parsed once, when it is whole.

import type { Json, JsonObject, ModelEvent } from "../../model/internal.ts";
import type { ReplyBuilder } from "../reply-builder.ts";

import { isJsonArray, maxToolValueDepth } from "../../model/internal.ts";
import { numberAt, objectAt, textAt } from "../fields.ts";
import { parseArguments } from "../reply-builder.ts";

type CallState = {
  /** What the builder knows it by. */
  readonly key: string;
  id: string | null;
  name: string;
  argumentsText: string;
  /** A tool that takes text as it is instead of JSON. */
  isCustom: boolean;
  isStarted: boolean;
  readonly braces: BraceTracker;
  /** The arguments once they are whole; `undefined` before anybody had to know. */
  parsedArguments: JsonObject | null | undefined;
  readonly fields: Map<string, Json>;
};

type CallFragment = { readonly id: string | null; readonly name: string; readonly text: string };

const standardFields = new Set(["id", "index", "type", "function", "custom"]);

export class CallReader {
  readonly #builder: ReplyBuilder;
  readonly #calls: CallState[] = [];
  readonly #byIndex = new Map<number, CallState>();
  /** The newest call of an id. */
  readonly #byId = new Map<string, CallState>();

  constructor(builder: ReplyBuilder) {
    this.#builder = builder;
  }

  get isEmpty(): boolean {
    return this.#calls.length === 0;
  }

  /** One entry of `tool_calls`. In a whole reply every entry is a call of its own. */
  readEntry(entry: JsonObject, isWhole: boolean): readonly ModelEvent[] {
    const custom = objectAt(entry, "custom");
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

  /** The reply is over: every call is whole, also one whose name never came. */
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

/** Does the piece begin a call instead of going on with this one? */
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

/** Is the piece the whole call once more? Servers that do that may write it in another way. */
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

/** The arguments of a call that are whole already. */
function completeArguments(call: CallState): JsonObject | null {
  if (!call.braces.areClosed) return null;
  if (call.parsedArguments === undefined) call.parsedArguments = parseArguments(call.argumentsText);
  return call.parsedArguments;
}

/** Follows the braces of JSON that is being written, to know when it may be whole without reading all of it again. */
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

/** Values deeper than the model can hold are equal to none. */
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

/** Arguments as text; some servers send the object itself. */
function argumentsText(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
