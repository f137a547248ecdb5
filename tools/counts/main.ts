// `npm run check:counts`: prints the counts of the repository (counts.ts). Fails if a function exceeds the limits.

import { join } from "node:path";

import { countRepository, formatCounts } from "./counts.ts";

const counts = countRepository(join(import.meta.dirname, "../.."));
console.log(formatCounts(counts));
if (counts.exceeding.length > 0) process.exitCode = 1;
