// The numbers of the context window as rows of a table, in the order of the bar. Pure.

import type { WindowUse } from "everturn/advanced";

import { count } from "../parts/format.ts";

type WindowPart = WindowUse["parts"][number];

/** A row. `source` `null`: a setting, which nothing has counted. */
export type WindowRow = {
  readonly name: WindowPart["name"] | "reserve" | "free";
  readonly label: string;
  readonly tokens: number;
  readonly source: WindowPart["source"] | null;
};

const labels: { readonly [name in WindowRow["name"]]: string } = {
  instructions: "Instructions",
  tools: "Tools",
  summary: "Summary",
  history: "Messages",
  results: "Tool results",
  reserve: "Reserved for the reply",
  free: "Free",
};

/**
 * The parts of a request, what is free, and the reserve, which a request does not use. Parts without tokens that are not
 * always there are left out.
 */
export function windowRows({ parts, reserve, free }: WindowUse): readonly WindowRow[] {
  const used = parts
    .filter(({ name, tokens }) => tokens > 0 || name === "history")
    .map((part): WindowRow => ({ ...part, label: labels[part.name] }));
  const reserved: WindowRow = { name: "reserve", label: labels.reserve, tokens: reserve, source: null };
  return [
    ...used,
    ...(free === null ? [] : [{ name: "free", label: labels.free, ...free } as const]),
    ...(reserve > 0 ? [reserved] : []),
  ];
}

/** `12,400 of 32,000 tokens`. */
export function windowText({ input, window }: WindowUse): string {
  return window === null
    ? `${count(input.tokens)} tokens; the window of the model is not known`
    : `${count(input.tokens)} of ${count(window)} tokens`;
}
