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
import { argumentsOf } from "../reply-builder.ts";

type Heard = {
  /** What the builder knows it by. */
  readonly key: string;
  id: string | null;
  name: string;
  raw: string;
  /** A tool that takes text as it is instead of JSON. */
  isCustom: boolean;
  isStarted: boolean;
  readonly braces: Braces;
  /** The arguments once they are whole; `undefined` before anybody had to know. */
  whole: JsonObject | null | undefined;
  readonly fields: Map<string, Json>;
};

type Piece = { readonly id: string | null; readonly name: string; readonly text: string };

const ownFields = new Set(["id", "index", "type", "function", "custom"]);

export class CallReader {
  readonly #builder: ReplyBuilder;
  readonly #calls: Heard[] = [];
  readonly #byIndex = new Map<number, Heard>();
  /** The newest call of an id. */
  readonly #byId = new Map<string, Heard>();

  constructor(builder: ReplyBuilder) {
    this.#builder = builder;
  }

  get isEmpty(): boolean {
    return this.#calls.length === 0;
  }

  /** One entry of `tool_calls`. In a whole reply every entry is a call of its own. */
  hear(entry: JsonObject, isWhole: boolean): readonly ModelEvent[] {
    const custom = objectAt(entry, "custom");
    const inner = custom ?? objectAt(entry, "function");
    const id = textAt(entry, "id");
    const piece: Piece = {
      id: id === "" ? null : id,
      name: textAt(inner, "name") ?? "",
      text: writtenArguments(inner?.[custom === null ? "arguments" : "input"]),
    };
    const index = isWhole ? null : numberAt(entry, "index");
    const call = isWhole ? this.#add(null) : this.#find(index, piece);
    if (call === null) return [];
    call.isCustom ||= custom !== null;
    call.id ??= piece.id;
    if (call.id !== null) this.#byId.set(call.id, call);
    if (call.name === "") call.name = piece.name;
    for (const [key, value] of Object.entries(entry)) {
      if (!ownFields.has(key) && value !== null) call.fields.set(key, value);
    }
    return this.#goOn(call, piece);
  }

  /** The reply is over: every call is whole, also one whose name never came. */
  end(): readonly ModelEvent[] {
    return this.#calls.flatMap((call) => {
      const begun = call.isStarted ? [] : this.#start(call);
      const isPlain = !call.isCustom && call.fields.size === 0;
      const fields = Object.fromEntries(call.fields);
      const ended = this.#builder.callEnd(call.key, {
        ...(call.isCustom ? { arguments: { input: call.raw } } : { raw: call.raw }),
        provider: isPlain ? null : this.#builder.replay({ fields, custom: call.isCustom }),
      });
      return ended === null ? begun : [...begun, ended];
    });
  }

  #goOn(call: Heard, piece: Piece): readonly ModelEvent[] {
    const more = isRepeated(call, piece) ? "" : piece.text;
    call.raw += more;
    call.braces.follow(more);
    if (!call.isStarted) return call.name === "" ? [] : this.#start(call);
    const delta = more === "" ? null : this.#builder.callDelta(call.key, more);
    return delta === null ? [] : [delta];
  }

  #start(call: Heard): readonly ModelEvent[] {
    call.isStarted = true;
    const started = this.#builder.callStart(call.id ?? `call_${call.key}`, call.name, { key: call.key });
    const delta = call.raw === "" ? null : this.#builder.callDelta(call.key, call.raw);
    return delta === null ? [started] : [started, delta];
  }

  #find(index: number | null, piece: Piece): Heard | null {
    const { id, name } = piece;
    const byId = id === null ? undefined : this.#byId.get(id);
    const known = index === null ? (byId ?? (id === null ? this.#calls.at(-1) : undefined)) : this.#byIndex.get(index);
    if (known !== undefined && !isAnother(known, piece, index !== null)) return known;
    return known === undefined && index === null && id === null && name === "" ? null : this.#add(index);
  }

  #add(index: number | null): Heard {
    const key = `${this.#calls.length}`;
    const call: Heard = {
      key,
      id: null,
      name: "",
      raw: "",
      isCustom: false,
      isStarted: false,
      braces: new Braces(),
      whole: undefined,
      fields: new Map(),
    };
    this.#calls.push(call);
    if (index !== null) this.#byIndex.set(index, call);
    return call;
  }
}

/** Does the piece begin a call instead of going on with this one? */
function isAnother(known: Heard, piece: Piece, hasIndex: boolean): boolean {
  const { id, name, text } = piece;
  if (name === "") return false;
  if (id !== null && known.id !== null && id !== known.id) return true;
  if (!hasIndex && known.name !== "" && known.name !== name) return true;
  if (known.isCustom || text.trim() === "" || wholeOf(known) === null || isRepeated(known, piece)) return false;
  const isSame = hasIndex && id !== null && id === known.id;
  return !isSame || argumentsOf(text) !== null;
}

/** Is the piece the whole call once more? Servers that do that may write it in another way. */
function isRepeated(known: Heard, { id, text }: Piece): boolean {
  if (id === null || id !== known.id || known.isCustom || text.trim() === "") return false;
  const before = wholeOf(known);
  const again = before === null ? null : argumentsOf(text);
  return before !== null && again !== null && isEqual(before, again, maxToolValueDepth);
}

/** The arguments of a call that are whole already. */
function wholeOf(call: Heard): JsonObject | null {
  if (!call.braces.areClosed) return null;
  if (call.whole === undefined) call.whole = argumentsOf(call.raw);
  return call.whole;
}

/** Follows the braces of JSON that is being written, to know when it may be whole without reading all of it again. */
class Braces {
  #depth = 0;
  #isInText = false;
  #isEscaped = false;
  #areClosed = false;

  get areClosed(): boolean {
    return this.#areClosed;
  }

  follow(more: string): void {
    for (let index = 0; index < more.length && !this.#areClosed; index += 1) this.#take(more.charAt(index));
  }

  #take(char: string): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (this.#isInText) {
      if (char === "\\") this.#isEscaped = true;
      else if (char === '"') this.#isInText = false;
    } else if (char === '"') this.#isInText = true;
    else if (char === "{") this.#depth += 1;
    else if (char === "}") {
      this.#depth -= 1;
      this.#areClosed = this.#depth === 0;
    }
  }
}

/** Values deeper than the model can hold are equal to none. */
function isEqual(one: Json, other: Json, room: number): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null || room === 0)
    return false;
  if (isJsonArray(one) || isJsonArray(other)) {
    if (!isJsonArray(one) || !isJsonArray(other) || one.length !== other.length) return false;
    return one.every((item, index) => isEqual(item, other[index] ?? null, room - 1));
  }
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isEqual(one[key] ?? null, other[key] ?? null, room - 1))
  );
}

/** Arguments as text; some servers send the object itself. */
function writtenArguments(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
