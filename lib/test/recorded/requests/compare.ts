// Compares a recorded request body with the body that a codec wrote for the same request.
//
// Theory of operation
//   Two bodies are `equal` if they are the same JSON; the order of keys does not matter. Otherwise every rule of the
//   API is applied to both bodies. A rule rewrites one way to say something into another way that means the same to the
//   API (`"Hi."` and `[{ type: "text", text: "Hi." }]`). If the rewritten bodies are the same, the difference is
//   `harmless`, and the result names the rules without which the bodies would differ. What remains is `different`.
//
// Invariants
//   1. A rule has a name and a reason. It must not remove content: `mutations.ts` shows for every kind of content that
//      a lost or changed one is found.
//   2. The order of rules does not decide a verdict: all of them are applied.

import type { Json, JsonObject } from "everturn";

import { isList, isObject } from "./json.ts";

/** The two bodies of one request. */
export type Pair = { readonly recorded: JsonObject; readonly sent: JsonObject };

/** A harmless difference: its name, why it is harmless, and how it is removed from the two bodies. */
export type Rule = {
  readonly name: string;
  readonly reason: string;
  readonly apply: (pair: Pair) => Pair;
};

export type Difference = {
  readonly path: string;
  readonly recorded: Json | undefined;
  readonly sent: Json | undefined;
};

export type Verdict =
  | { readonly type: "equal" }
  | { readonly type: "harmless"; readonly rules: readonly string[] }
  | { readonly type: "different"; readonly differences: readonly Difference[] };

/** A rule that rewrites both bodies in the same way. */
export function rule(name: string, reason: string, rewrite: (body: JsonObject) => JsonObject): Rule {
  return { name, reason, apply: ({ recorded, sent }) => ({ recorded: rewrite(recorded), sent: rewrite(sent) }) };
}

/** A rule about something that only the recorded body says in another way. */
export function recordedRule(name: string, reason: string, rewrite: (body: JsonObject) => JsonObject): Rule {
  return { name, reason, apply: ({ recorded, sent }) => ({ recorded: rewrite(recorded), sent }) };
}

export function compare(pair: Pair, rules: readonly Rule[]): Verdict {
  if (differencesOf(pair).length === 0) return { type: "equal" };
  const differences = differencesOf(applyAll(pair, rules));
  if (differences.length > 0) return { type: "different", differences };
  const needed = rules.filter((rule) => {
    const others = rules.filter((other) => other !== rule);
    return differencesOf(applyAll(pair, others)).length > 0;
  });
  return { type: "harmless", rules: needed.map(({ name }) => name) };
}

function applyAll(pair: Pair, rules: readonly Rule[]): Pair {
  return rules.reduce((current, rule) => rule.apply(current), pair);
}

/** Every place where the two bodies differ. */
function differencesOf({ recorded, sent }: Pair): readonly Difference[] {
  return differencesAt("", recorded, sent);
}

function differencesAt(path: string, recorded: Json | undefined, sent: Json | undefined): readonly Difference[] {
  if (isList(recorded) && isList(sent)) {
    const length = Math.max(recorded.length, sent.length);
    return Array.from({ length }, (_, index) =>
      differencesAt(`${path}[${index}]`, recorded[index], sent[index]),
    ).flat();
  }
  if (isObject(recorded) && isObject(sent)) {
    const names = new Set([...Object.keys(recorded), ...Object.keys(sent)]);
    return [...names].flatMap((name) =>
      differencesAt(path === "" ? name : `${path}.${name}`, recorded[name], sent[name]),
    );
  }
  return recorded === sent ? [] : [{ path, recorded, sent }];
}
