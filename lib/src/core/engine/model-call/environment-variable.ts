// Environment variables, on platforms that have them.

/**
 * Returns an environment variable; `null`: it is not set. Returns `null` on platforms without `process`, such as
 * browsers and edge runtimes.
 */
export function environmentVariable(name: string): string | null {
  const platform: unknown = Reflect.get(globalThis, "process");
  if (typeof platform !== "object" || platform === null) return null;
  const environment: unknown = Reflect.get(platform, "env");
  if (typeof environment !== "object" || environment === null) return null;
  const value: unknown = Reflect.get(environment, name);
  return typeof value === "string" ? value : null;
}
