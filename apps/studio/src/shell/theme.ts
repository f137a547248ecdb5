// The colour theme: that of the system, or light or dark by choice. The choice is stored in the browser and set as
// `data-theme` of the root element.

import { Store, useStore } from "../data/store.ts";
import { readStored, writeStored } from "./stored.ts";

const themes = ["system", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

const storedKey = "everturn-theme";
const chosen = new Store<Theme>(themes.find((theme) => theme === readStored(storedKey)) ?? "system");

/** Applies the stored theme before the first render. */
export function applyTheme(): void {
  const theme = chosen.get();
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

export function setTheme(theme: Theme): void {
  writeStored(storedKey, theme);
  chosen.set(theme);
  applyTheme();
}

/** The theme after the present one: system, light, dark, and system again. */
export function nextTheme(theme: Theme): Theme {
  return themes[(themes.indexOf(theme) + 1) % themes.length] ?? "system";
}

export function useTheme(): Theme {
  return useStore(chosen);
}
