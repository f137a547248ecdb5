// Waits in tests for something that happens on its own time.

import { vi } from "vitest";

/**
 * Repeats a check until it passes, and returns its value. The limit is far above what any check takes: `vi.waitFor`
 * gives up after one second, which is too short on a busy machine.
 */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> => vi.waitFor(check, { timeout: 60_000 });
