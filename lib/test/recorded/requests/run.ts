// `npm run test:requests -- DIR`: converts every recorded request body below DIR (`NAME.request.json`, in a folder
// named after the API) into a request of the library, encodes it, and compares the body with the recorded one. The
// recorded answer (`NAME.answer.json` or `.sse`) supplies what the body lacks: the name of a Gemini model, items that a
// body refers to by id, and whether the API refused the request. Exits with 1 if a body is different, or if a defect
// that was put into an encoded body was not found (mutations.ts), or if the provider would refuse a body that it had
// accepted.

import type { WireApi } from "../../../src/core/wire/internal.ts";
import type { Difference } from "./compare.ts";
import type { Json, JsonObject } from "everturn";

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { frameReader } from "everturn/advanced";

import { knownRefusals } from "../known-refusals.ts";
import { recordedApis } from "./apis.ts";
import { checkRequest } from "./check.ts";
import { isObject, objectOf, objectsOf, shown, stringOrNull } from "./json.ts";

const [folder] = process.argv.slice(2);
if (folder === undefined || !existsSync(folder)) {
  console.log(
    `skipped: ${folder === undefined ? "no folder of recorded requests was given" : `there is no folder ${folder}`}`,
  );
  process.exit(folder === undefined ? 2 : 0);
}

/** Counts by name. */
class Counter {
  readonly #counts = new Map<string, number>();
  add(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }
  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }
  lines(): readonly string[] {
    return [...this.#counts].sort(([, one], [, other]) => other - one).map(([name, count]) => `${count} ${name}`);
  }
}

const paths = requestsBelow(folder);
const items = itemsOf(paths);
const problems: string[] = [];
const rules = new Counter();
const options = new Counter();
const unknownFields = new Counter();
const providerOptions = new Counter();
const injected = new Counter();
const missed: string[] = [];
const refusals: { readonly rule: string; readonly line: string }[] = [];
const reasons = new Map<string, string>();
let different = 0;

for (const [name, api] of Object.entries(recordedApis)) {
  const verdicts = new Counter();
  const own = paths.filter((path) => apiOf(path) === name);
  for (const path of own) {
    const answer = answersOf(path);
    const recording = { body: bodyOf(path), model: modelOf(answer), items };
    const checked = checkRequest(api, recording);
    const isRefusedByApi = answer.some((part) => isObject(part["error"]));
    const type =
      checked.verdict.type === "refused" ? (isRefusedByApi ? "harmless" : "different") : checked.verdict.type;
    verdicts.add(type);
    if (checked.verdict.type === "refused" && type === "harmless") rules.add("refused request");
    if (checked.verdict.type === "harmless") for (const rule of checked.verdict.rules) rules.add(`${name}: ${rule}`);
    if (type === "different") {
      different += 1;
      const lines = checked.verdict.type === "different" ? checked.verdict.differences.slice(0, 12).map(rendered) : [];
      problems.push(
        [path, ...lines, ...(checked.verdict.type === "refused" ? [`  ${checked.verdict.message}`] : [])].join("\n"),
      );
    }
    if (!isRefusedByApi)
      refusals.push(...checked.refusals.map(({ rule, message }) => ({ rule, line: `${path} (${rule}): ${message}` })));
    for (const rule of api.rules(recording)) reasons.set(`${name}: ${rule.name}`, rule.reason);
    for (const field of new Set(checked.options)) {
      const isDocumented = api.documented.has(field.split(".")[0] ?? field);
      (isDocumented ? options : unknownFields).add(`${name}: ${field}`);
    }
    for (const field of new Set(checked.providerOptions)) providerOptions.add(`${name}: ${field}`);
    for (const { name: mutation, isFound } of checked.mutations) {
      injected.add(mutation);
      if (!isFound) missed.push(`${path}: ${mutation}`);
    }
  }
  console.log(
    `${name}: ${own.length} requests, ${verdicts.of("equal")} equal, ${verdicts.of("harmless")} harmless, ${verdicts.of("different")} different`,
  );
}

reasons.set("refused request", "the API answered with an error, and the library refuses the request before it is sent");
print(
  "harmless differences (requests that need the rule)",
  rules.lines().map((line) => `${line}: ${reasons.get(line.replace(/^\d+ /, "")) ?? ""}`),
);
print("fields of the request without a type, sent as provider options", options.lines());
print("fields of the request that the API does not document, passed through", unknownFields.lines());
print("fields of messages, parts and tools, sent as provider options", providerOptions.lines());
print("defects put into the encoded bodies, all found unless listed below", injected.lines());
print("defects that were not found", missed);
print("different", problems);
const known = refusals.filter(({ rule }) => knownRefusals.has(rule));
const newlyRefused = refusals.filter(({ rule }) => !knownRefusals.has(rule));
print(
  "refused by the provider",
  newlyRefused.map(({ line }) => line),
);
print(
  "refused by the provider, known defects",
  known.map(({ line }) => line),
);
console.log(`\n${paths.length} requests, ${different} different, ${missed.length} defects not found`);
process.exit(different === 0 && newlyRefused.length === 0 && missed.length === 0 && paths.length > 0 ? 0 : 1);

function print(title: string, lines: readonly string[]): void {
  if (lines.length > 0) console.log(`\n${title}:\n${lines.map((line) => `  ${line}`).join("\n")}`);
}

function rendered({ path, recorded, sent }: Difference): string {
  return `    ${path}: recorded ${shown(recorded)}, sent ${shown(sent)}`;
}

function requestsBelow(path: string): readonly string[] {
  if (!statSync(path).isDirectory()) return path.endsWith(".request.json") && apiOf(path) !== null ? [path] : [];
  return readdirSync(path)
    .sort()
    .flatMap((name) => requestsBelow(join(path, name)));
}

/** The API of the nearest folder that is named after one. */
function apiOf(path: string): WireApi | null {
  for (let at = dirname(path); at !== dirname(at); at = dirname(at)) {
    const name = basename(at);
    if (name.startsWith("openai-chat")) return "openai-chat";
    if (name === "openai-responses" || name === "anthropic-messages" || name === "gemini") return name;
  }
  return null;
}

function bodyOf(path: string): JsonObject {
  const value: Json = JSON.parse(readFileSync(path, "utf8"));
  return objectOf(value);
}

/** The recorded answer: its body, or the events of its stream. */
function answersOf(path: string): readonly JsonObject[] {
  const name = path.replace(/\.request\.json$/, ".answer");
  if (existsSync(`${name}.json`)) return parsed(readFileSync(`${name}.json`, "utf8"));
  if (!existsSync(`${name}.sse`)) return [];
  const reader = frameReader();
  return [...reader.push(readFileSync(`${name}.sse`, "utf8")), ...reader.end()].flatMap(({ data }) => parsed(data));
}

function parsed(text: string): readonly JsonObject[] {
  try {
    const value: Json = JSON.parse(text);
    return isObject(value) ? [value] : objectsOf(value);
  } catch {
    return [];
  }
}

function modelOf(answer: readonly JsonObject[]): string | null {
  return answer.map((part) => stringOrNull(part["modelVersion"])).find((model) => model !== null) ?? null;
}

/** The items of all recorded Responses, by id. */
function itemsOf(requests: readonly string[]): ReadonlyMap<string, JsonObject> {
  const all = requests
    .filter((path) => apiOf(path) === "openai-responses")
    .flatMap((path) => [
      ...objectsOf(bodyOf(path)["input"]).filter(({ type }) => type !== "item_reference"),
      ...answersOf(path).flatMap((part) => [
        ...(part["type"] === "response.output_item.done" ? [objectOf(part["item"])] : []),
        ...objectsOf(part["output"]),
        ...objectsOf(objectOf(part["response"])["output"]),
      ]),
    ]);
  return new Map(
    all.flatMap((item): readonly [string, JsonObject][] =>
      typeof item["id"] === "string" ? [[item["id"], item]] : [],
    ),
  );
}
