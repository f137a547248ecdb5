// Real models for the demo, resolved as in every other command: base URLs from the environment and from a configuration
// file named by --config. Whether an API key is set is checked before a process is started; the key itself is read by
// the adapter for each call.

import type { Environment } from "@everturn/server";
import type { Engine } from "everturn";

import { createEngine, keyVariable, knownProviders, loadSettings, SettingsError } from "@everturn/server";

export type ModelChoice = {
  /** `provider:model`. */
  readonly model: string;
  /** The path in `--config`; `null`: none. */
  readonly config: string | null;
  readonly environment: Environment;
};

/** Builds the engine for a model, without tools. */
export async function realEngine({ model, config, environment }: ModelChoice): Promise<Engine> {
  const settings = await loadSettings({ flags: { model }, environment, config: config ?? false });
  const tools = { ...settings.tools, value: [] };
  return createEngine({ ...settings, tools }, environment);
}

/** Throws `SettingsError` for an unknown model and for a model without its API key. */
export async function checkModel(choice: ModelChoice): Promise<void> {
  await realEngine(choice);
  const [name = ""] = choice.model.split(":");
  const provider = Object.entries(knownProviders).find(([providerName]) => providerName === name)?.[1];
  if (provider === undefined || provider.keyless || keyVariable(provider, choice.environment) !== null) return;
  throw new SettingsError(
    `no API key for ${choice.model}: set ${provider.keys.join(" or ")}, or omit --model to use the scripted model`,
  );
}
