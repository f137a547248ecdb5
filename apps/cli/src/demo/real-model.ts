// Real models, by `provider:name`, as every other command has them: addresses from the environment and the configuration file. Whether a key is there
// is asked before anything is started; the key itself is read by the adapter, when it makes a call.

import type { Environment } from "@everturn/server";
import type { Engine } from "everturn";

import { createEngine, keyVariable, knownProviders, loadSettings, SettingsError } from "@everturn/server";

export type ModelChoice = {
  /** `provider:name`. */
  readonly model: string;
  /** The configuration file, where one is named. */
  readonly config: string | null;
  readonly environment: Environment;
};

/** The engine for a model, without tools. */
export async function realEngine({ model, config, environment }: ModelChoice): Promise<Engine> {
  const settings = await loadSettings({ flags: { model }, environment, ...(config === null ? {} : { config }) });
  const tools = { ...settings.tools, value: [] };
  return createEngine({ ...settings, tools }, environment);
}

/** Throws a `SettingsError` where it can be seen from here that this model cannot be asked. */
export async function checkModel(choice: ModelChoice): Promise<void> {
  await realEngine(choice);
  const [name = ""] = choice.model.split(":");
  const provider = Object.entries(knownProviders).find(([known]) => known === name)?.[1];
  if (provider === undefined || provider.keyless || keyVariable(provider, choice.environment) !== null) return;
  throw new SettingsError(
    `no key for ${choice.model}: set ${provider.keys.join(" or ")}, or leave --model out, the scripted model needs none`,
  );
}
