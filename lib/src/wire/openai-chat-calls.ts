// Tool calls of Chat Completions as they arrive in pieces.
//
// Rules:
//   1. A piece belongs to the call of its index; without an index, to the call of its id; without either, to the newest.
//   2. A piece that names a tool and cannot go on with the call it belongs to (another id, or arguments that are whole already) is
//      another call: some servers number all calls 0, or repeat ids.
//   3. Ids are unique within a reply. Missing ones are made up from the place of the call, the same on every reading.
//   4. A call begins when its name is known, and is whole when the reply ends.
//   5. Fields of a call that are none of ours (signatures) are kept for the way back.

import type { Json, JsonObject, ModelEvent } from "../model/index.ts";
import type { ReplyBuilder } from "./reply-builder.ts";

import { numberAt, objectAt, said, textAt } from "./fields.ts";
import { argumentsOf } from "./reply-builder.ts";

type Heard = {
  /** What the builder knows it by. */
  readonly key: string;
  id: string | null;
  name: string;
  raw: string;
  /** A tool that takes text as it is instead of JSON. */
  isCustom: boolean;
  isStarted: boolean;
  fields: JsonObject;
};

type Piece = { readonly id: string | null; readonly name: string; readonly text: string };

const ownFields = new Set(["id", "index", "type", "function", "custom"]);

export class CallReader {
  readonly #builder: ReplyBuilder;
  readonly #calls: Heard[] = [];
  readonly #byIndex = new Map<number, Heard>();
  readonly #ids = new Set<string>();

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
    if (call.name === "") call.name = piece.name;
    call.fields = { ...call.fields, ...said(Object.fromEntries(Object.entries(entry).filter(isForeign))) };
    return this.#goOn(call, piece);
  }

  /** The reply is over: every call is whole, also one whose name never came. */
  end(): readonly ModelEvent[] {
    return this.#calls.flatMap((call) => {
      const begun = call.isStarted ? [] : this.#start(call);
      const isPlain = !call.isCustom && Object.keys(call.fields).length === 0;
      const ended = this.#builder.callEnd(call.key, {
        ...(call.isCustom ? { arguments: { input: call.raw } } : {}),
        provider: isPlain ? null : this.#builder.replay({ fields: call.fields, custom: call.isCustom }),
      });
      return ended === null ? begun : [...begun, ended];
    });
  }

  #goOn(call: Heard, { id, text }: Piece): readonly ModelEvent[] {
    // The whole call once more at its end.
    const isRepeated = id !== null && id === call.id && text !== "" && text === call.raw && isWholeText(text);
    const more = isRepeated ? "" : text;
    call.raw += more;
    if (!call.isStarted) return call.name === "" ? [] : this.#start(call);
    const delta = more === "" ? null : this.#builder.callDelta(call.key, more);
    return delta === null ? [] : [delta];
  }

  #start(call: Heard): readonly ModelEvent[] {
    call.isStarted = true;
    const started = this.#builder.callStart(this.#freeId(call), call.name, { key: call.key });
    const delta = call.raw === "" ? null : this.#builder.callDelta(call.key, call.raw);
    return delta === null ? [started] : [started, delta];
  }

  #find(index: number | null, piece: Piece): Heard | null {
    const { id, name } = piece;
    const byId = id === null ? undefined : this.#calls.find((call) => call.id === id);
    const known = index === null ? (byId ?? (id === null ? this.#calls.at(-1) : undefined)) : this.#byIndex.get(index);
    if (known !== undefined && !isAnother(known, piece, index !== null)) return known;
    return known === undefined && index === null && id === null && name === "" ? null : this.#add(index);
  }

  #add(index: number | null): Heard {
    const key = `${this.#calls.length}`;
    const call: Heard = { key, id: null, name: "", raw: "", isCustom: false, isStarted: false, fields: {} };
    this.#calls.push(call);
    if (index !== null) this.#byIndex.set(index, call);
    return call;
  }

  #freeId(call: Heard): string {
    const wanted = call.id ?? `call_${call.key}`;
    let id = wanted;
    for (let n = 2; this.#ids.has(id); n += 1) id = `${wanted}~${n}`;
    this.#ids.add(id);
    return id;
  }
}

/** Does the piece begin a call instead of going on with this one? */
function isAnother(known: Heard, { id, name, text }: Piece, hasIndex: boolean): boolean {
  if (name === "") return false;
  if (id !== null && known.id !== null && id !== known.id) return true;
  if (!hasIndex && known.name !== "" && known.name !== name) return true;
  const repeats = id !== null && id === known.id && text === known.raw;
  return text !== "" && !repeats && isWholeText(known.raw);
}

function isWholeText(raw: string): boolean {
  return raw.trim() !== "" && argumentsOf(raw) !== null;
}

function isForeign([key]: [string, Json]): boolean {
  return !ownFields.has(key);
}

/** Arguments as text; some servers send the object itself. */
function writtenArguments(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
