// The settings of one column of the playground, and the turn options that they become.

import type { EngineView } from "everturn/advanced";
import type { TurnOptions } from "everturn/client";

/** The settings of a column. An empty text means that the engine decides. */
export type ColumnSettings = {
  readonly engine: string;
  readonly model: string;
  readonly instructions: string;
  readonly temperature: string;
  readonly maxTokens: string;
  readonly maxTurns: string;
  /** The tools that are offered to the model; `null`: all of the engine. */
  readonly tools: readonly string[] | null;
};

/** The settings of an engine without changes. */
export function newColumnSettings({ name }: Pick<EngineView, "name">): ColumnSettings {
  return { engine: name, model: "", instructions: "", temperature: "", maxTokens: "", maxTurns: "", tools: null };
}

/** A setting that cannot be sent, and why. */
export type SettingIssue = { readonly field: keyof ColumnSettings; readonly message: string };

/**
 * The turn options of the settings, or the issues of those that are not valid. Options that the server does not allow
 * are left out.
 */
export function optionsOf(
  { engine, model, instructions, temperature, maxTokens, maxTurns, tools }: ColumnSettings,
  allow: readonly string[],
): { readonly options: TurnOptions; readonly issues: readonly SettingIssue[] } {
  const issues: SettingIssue[] = [];
  const isAllowed = (name: string): boolean => allow.includes(name);
  const number = (
    field: "temperature" | "maxTokens" | "maxTurns",
    text: string,
    isValid: (value: number) => boolean,
    rule: string,
  ) => {
    const value = Number(text);
    if (text.trim() === "" || !isAllowed(field)) return {};
    if (Number.isFinite(value) && isValid(value)) return { [field]: value };
    issues.push({ field, message: rule });
    return {};
  };
  const isModel = /^[a-z][\w.-]*:.+$/i.test(model.trim());
  if (model.trim() !== "" && isAllowed("model") && !isModel) {
    issues.push({ field: "model", message: "write provider:model, for example openai:gpt-6.1-sol" });
  }
  const options: TurnOptions = {
    engine,
    ...(isModel && isAllowed("model") ? { model: modelName(model.trim()) } : {}),
    ...(instructions.trim() !== "" && isAllowed("instructions") ? { instructions } : {}),
    ...number("temperature", temperature, (value) => value >= 0 && value <= 2, "a number from 0 to 2"),
    ...number("maxTokens", maxTokens, (value) => Number.isInteger(value) && value > 0, "a whole number of 1 or more"),
    ...number("maxTurns", maxTurns, (value) => Number.isInteger(value) && value > 0, "a whole number of 1 or more"),
    ...(tools !== null && isAllowed("activeTools") ? { activeTools: tools } : {}),
  };
  return { options, issues };
}

/** A checked model name has the form `provider:model`. */
function modelName(text: string): NonNullable<TurnOptions["model"]> {
  const [provider = "", ...rest] = text.split(":");
  return `${provider}:${rest.join(":")}`;
}

/**
 * The engines that a column can choose. A fork keeps the engine of its original: `engine` is its name; `null`: any
 * engine.
 */
export function enginesFor<E extends Pick<EngineView, "name">>(
  engines: readonly E[],
  engine: string | null,
): readonly E[] {
  const own = engines.filter(({ name }) => name === engine);
  return own.length > 0 ? own : engines;
}

/** The options of a turn in a fork, whose engine cannot be changed. */
export function withoutEngine(options: TurnOptions): TurnOptions {
  const { engine: _, ...others } = options;
  return others;
}
