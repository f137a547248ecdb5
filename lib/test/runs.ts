// Small words for runs in tests.

import type { EngineFields } from "../src/engine/internal.ts";
import type { FakeScript, FakeStep, Tool } from "everturn";
import type { CallerContext } from "everturn/model";

import { engine, fake, tool } from "everturn";
import { handClock } from "everturn/testing";

export const says = (text: string): FakeScript => [{ type: "text", text }];

/** A reply that makes calls, known by their places. */
export const calls = (...names: readonly string[]): FakeScript =>
  names.map((name, index): FakeStep => ({ type: "tool_call", id: `c${index}`, name, arguments: {} }));

/** A tool that takes anything. */
export function plain(name: string, handler?: () => unknown): Tool {
  const described = { name, description: name, schema: { type: "object" } };
  return handler === undefined ? tool(described) : tool({ ...described, handler });
}

/** An engine that plays these scripts, on a clock that stands still. */
export function playing(
  scripts: readonly FakeScript[],
  tools: readonly Tool[] = [],
  rest: Omit<EngineFields<CallerContext>, "context"> = {},
) {
  const clock = handClock();
  const adapter = fake({ scripts, clock });
  return { adapter, clock, engine: engine({ adapter, model: "fake:m", tools, clock, ...rest }) };
}
