// `npm run bench`: every benchmark, one after the other, in one process, on what would be published and not on its sources.

import { benchDurable } from "./durable.ts";
import { benchKernel } from "./kernel.ts";
import { benchModel } from "./model.ts";
import { benchSqlite } from "./sqlite.ts";
import { benchTypes } from "./types.ts";
import { benchWire } from "./wire.ts";

console.log(`Node ${process.version}, ${process.arch}`);
benchModel();
benchKernel();
benchWire();
benchTypes();
await benchDurable();
await benchSqlite();
