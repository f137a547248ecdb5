// `npm run bench:tokens`: the error and the cost of the two estimates of a context policy, from characters and by
// gpt-tokenizer. `-- DIR`: also against the usage that providers have reported for recorded requests; DIR has a folder
// for each API, with files NAME.request.json and NAME.answer.{json,sse}. Docs/decisions/0078 has the results.

import type { JsonObject } from "everturn";

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { user } from "everturn";
import { gptTokenizer } from "everturn/gpt-tokenizer";

import { estimateMessage } from "../lib/src/core/kernel/history/tokens.ts";
import { visitTexts } from "../lib/src/core/kernel/internal.ts";
import { pieces } from "../lib/src/core/run/perform/tokenize.ts";

const tokenizer = gptTokenizer();
const startedAt = performance.now();
const rssBefore = process.memoryUsage().rss;
await tokenizer("loaded");
const loadMs = performance.now() - startedAt;
console.log(`gpt-tokenizer: loaded in ${loadMs.toFixed(0)} ms, ${mb(process.memoryUsage().rss - rssBefore)} MB`);

function mb(bytes: number): number {
  return Math.round(bytes / 1e6);
}

function byTokenizer(text: string): number {
  let sum = 0;
  for (const piece of pieces(text)) sum += Number(tokenizer(piece));
  return sum;
}

const byCharacters = (text: string): number => estimateMessage(user(text)) - estimateMessage(user(""));

/** Numbers that look random and are equal in every run. */
let state = 1;
function random(below: number): number {
  state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
  return Math.floor((state / 2_147_483_648) * below);
}

const file = (path: string): string => readFileSync(join(import.meta.dirname, "..", path), "utf8");
const lines = (count: number, line: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => line(index)).join("\n");
const hex = (length: number): string => Array.from({ length }, () => random(16).toString(16)).join("");

// The beginning of Kafka's "Die Verwandlung" (1915).
const german = `Als Gregor Samsa eines Morgens aus unruhigen Träumen erwachte, fand er sich in seinem Bett zu einem ungeheueren Ungeziefer verwandelt. Er lag auf seinem panzerartig harten Rücken und sah, wenn er den Kopf ein wenig hob, seinen gewölbten, braunen, von bogenförmigen Versteifungen geteilten Bauch, auf dessen Höhe sich die Bettdecke, zum gänzlichen Niedergleiten bereit, kaum noch erhalten konnte. Seine vielen, im Vergleich zu seinem sonstigen Umfang kläglich dünnen Beine flimmerten ihm hilflos vor den Augen. »Was ist mit mir geschehen?« dachte er. Es war kein Traum. Sein Zimmer, ein richtiges, nur etwas zu kleines Menschenzimmer, lag ruhig zwischen den vier wohlbekannten Wänden. Über dem Tisch, auf dem eine auseinandergepackte Musterkollektion von Tuchwaren ausgebreitet war – Samsa war Reisender –, hing das Bild, das er vor kurzem aus einer illustrierten Zeitschrift ausgeschnitten und in einem hübschen, vergoldeten Rahmen untergebracht hatte.`;
// The beginning of Tolstoy's "Anna Karenina" (1877).
const russian = `Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. Все смешалось в доме Облонских. Жена узнала, что муж был в связи с бывшею в их доме француженкою-гувернанткой, и объявила мужу, что не может жить с ним в одном доме.`;

const texts: { readonly [what: string]: string } = {
  "English prose": file("docs/rules.md"),
  "German prose": german,
  "Russian prose": russian,
  TypeScript: file("lib/src/core/kernel/machine/context.ts"),
  "JSON, indented": file("package-lock.json").slice(0, 40_000),
  "JSON, compact": JSON.stringify(JSON.parse(file("lib/package.json"))),
  "JSON with UUIDs": lines(60, () =>
    JSON.stringify({ id: [8, 4, 4, 4, 12].map(hex).join("-"), amount: random(10_000) / 100 }),
  ),
  "log lines": lines(
    200,
    (index) =>
      `2026-11-19T23:${String(index % 60).padStart(2, "0")}:12.${100 + index}Z INFO [worker-${index % 7}] request ${random(1e9).toString(36)} finished in ${random(900)} ms status=200`,
  ),
  "table of numbers": lines(300, (index) => `${index},${random(1_000_000) / 100},${random(100_000)}`),
  base64: Buffer.from(hex(4_000), "hex").toString("base64"),
};

console.log(
  "\n| text | tokens by gpt-tokenizer | tokens for each one estimated from characters |\n| --- | --- | --- |",
);
for (const [what, text] of Object.entries(texts)) {
  const tokens = byTokenizer(text);
  console.log(`| ${what} | ${tokens} | ${(tokens / byCharacters(text)).toFixed(2)} |`);
}

const unbroken = "a".repeat(200_000);
const costs: { readonly [what: string]: string } = {
  "200,000 characters of English": file("docs/rules.md").repeat(20).slice(0, 200_000),
  "200,000 characters of JSON": file("package-lock.json").slice(0, 200_000),
  "200,000 letters without a space": unbroken,
};
console.log("\n| text | from characters | by gpt-tokenizer, the first time | later |\n| --- | --- | --- | --- |");
for (const [what, text] of Object.entries(costs)) {
  const [characters, tokens] = [byCharacters, byTokenizer].map((count) => {
    const [first = 0, ...later] = Array.from({ length: 10 }, () => {
      const start = performance.now();
      count(text);
      return performance.now() - start;
    });
    return { first, later: later.toSorted((left, right) => left - right)[4] ?? 0 };
  });
  const times = [characters?.later, tokens?.first, tokens?.later].map((ms) => `${(ms ?? 0).toFixed(1)} ms`);
  console.log(`| ${what} | ${times.join(" | ")} |`);
}

/** Media, and tools and histories that the provider adds to the prompt itself. */
const hasMore =
  /image_url|"image"|inlineData|input_image|"file"|file_id|input_file|previous_response_id|web_search|code_execution|googleSearch/;

const folder = process.argv[2];
if (folder !== undefined && existsSync(folder)) compareWithUsage(folder);

/** The tokens that providers reported, for each estimated token, of requests of at least 1,000 tokens without media. */
function compareWithUsage(root: string): void {
  const fields = ["system", "instructions", "systemInstruction", "messages", "input", "contents", "tools"];
  console.log("\n| API | requests | from characters | by gpt-tokenizer |\n| --- | --- | --- | --- |");
  const folders = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  for (const { name: api } of folders) {
    const names = readdirSync(join(root, api));
    const ratios = names.flatMap((name) => {
      if (!name.endsWith(".request.json")) return [];
      const answer = names.find((other) => other.startsWith(name.replace(".request.json", ".answer.")));
      const text = readFileSync(join(root, api, name), "utf8");
      if (answer === undefined || hasMore.test(text)) return [];
      const used = inputTokens(readFileSync(join(root, api, answer), "utf8"));
      const parsed: { readonly body?: JsonObject } & JsonObject = JSON.parse(text);
      const body = parsed.body ?? parsed;
      const prompt = fields.flatMap((field) => body[field] ?? []);
      return used < 1_000 ? [] : [[used / sum(prompt, byCharacters), used / sum(prompt, byTokenizer)] as const];
    });
    if (ratios.length === 0) continue;
    const range = (index: 0 | 1): string => {
      const sorted = ratios.map((ratio) => ratio[index]).toSorted((left, right) => left - right);
      return `${sorted[0]?.toFixed(2)} to ${sorted.at(-1)?.toFixed(2)}`;
    };
    console.log(`| ${api} | ${ratios.length} | ${range(0)} | ${range(1)} |`);
  }
}

function sum(prompt: unknown, count: (text: string) => number): number {
  let ofTexts = 0;
  const others = visitTexts(prompt, (text) => {
    ofTexts += count(text);
  });
  return ofTexts + others;
}

/** The input tokens in a recorded answer, cached ones included. */
function inputTokens(answer: string): number {
  const largest = (field: string): number =>
    Math.max(0, ...[...answer.matchAll(new RegExp(`"${field}"\\s*:\\s*(\\d+)`, "g"))].map(([, n]) => Number(n)));
  return (
    largest("prompt_tokens") ||
    largest("promptTokenCount") ||
    largest("input_tokens") + largest("cache_read_input_tokens") + largest("cache_creation_input_tokens")
  );
}
