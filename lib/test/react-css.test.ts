// The stylesheet of the components of `everturn/react`: the variables that its guide lists, with their defaults, and the
// contrast of the defaults.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const css = readFileSync(join(root, "lib/react.css"), "utf8");
const guide = readFileSync(join(root, "docs/guide/components.md"), "utf8");

type Colours = readonly [light: string, dark: string];

/** The colours that are defaults, by their variables. */
const colours = new Map<string, Colours>(
  [...css.matchAll(/var\(--everturn-([\w-]+), light-dark\((#\w{6}), (#\w{6})\)\)/g)].map(
    ([, name = "", light = "", dark = ""]) => [name, [light, dark]],
  ),
);
const variables = new Set([...css.matchAll(/var\(\s*--everturn-([\w-]+)/g)].map(([, name = ""]) => name));

test("the guide lists every variable, and the default of each colour", () => {
  const rows = guide.split("\n").filter((line) => line.startsWith("| `--everturn-"));
  const listed = rows.flatMap((row) => {
    const [names = "", , light = "", dark = ""] = row.split("|").slice(1);
    const texts = (cell: string): readonly string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text);
    return texts(names).map((name, index) => [
      name.replace("--everturn-", ""),
      texts(light)[index],
      texts(dark)[index],
    ]);
  });
  expect(new Set(listed.map(([name]) => name))).toEqual(variables);
  const listedColours = listed.filter(([, light]) => light?.startsWith("#") === true);
  expect(new Map(listedColours.map(([name = "", light, dark]) => [name, [light, dark]]))).toEqual(colours);
  expect(colours.size).toBeGreaterThan(18);
});

test("each private variable is set, and no rule names a colour of its own", () => {
  const set = new Set([...css.matchAll(/^ +(--et-[\w-]+):/gm)].map(([, name = ""]) => name));
  const used = [...css.matchAll(/var\((--et-[\w-]+)\)/g)].map(([, name = ""]) => name);
  expect(used.filter((name) => !set.has(name))).toEqual([]);
  const rules = css.slice(css.indexOf("box-sizing"));
  expect(rules.match(/#[0-9a-f]{3,8}\b|rgb\(/g)).toBeNull();
});

const pairs: readonly (readonly [text: string, background: string])[] = [
  ...["text", "muted", "faint", "accent", "danger", "model", "tool", "wait"].map((text) => [text, "panel"] as const),
  ...["text", "muted"].map((text) => [text, "sunken"] as const),
  ...["accent", "danger", "model", "tool", "wait", "note"].map((text) => [text, `${text}-soft`] as const),
  ["on-accent", "accent"],
  ["on-accent", "danger"],
  ["text", "field"],
];

test.each(pairs)("%s on %s has a contrast of at least 4.5 in both themes", (text, background) => {
  for (const theme of [0, 1]) {
    const [one, other] = [text, background].map((name) => luminance(colours.get(name)?.[theme] ?? ""));
    const [high, low] = [Math.max(one ?? 0, other ?? 0), Math.min(one ?? 0, other ?? 0)];
    expect((high + 0.05) / (low + 0.05)).toBeGreaterThanOrEqual(4.5);
  }
});

/** The relative luminance of a colour (WCAG 2.2). */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => {
    const share = Number.parseInt(colour.slice(start, start + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
