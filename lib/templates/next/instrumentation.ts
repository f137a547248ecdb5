// Next calls it when the server starts: turns of a process that has ended are continued at once.

export async function register(): Promise<void> {
  if (process.env.NEXT_RUNTIME === "nodejs") await import("./src/start.ts");
}
