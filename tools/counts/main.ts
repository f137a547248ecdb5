// `npm run check:counts`: prints the counts of the repository (counts.ts).

import { join } from "node:path";

import { countRepository, formatCounts } from "./counts.ts";

console.log(formatCounts(countRepository(join(import.meta.dirname, "../.."))));
