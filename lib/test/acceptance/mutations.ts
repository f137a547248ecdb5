// All mutations, and the rows that name a test and have no mutation yet.

import type { Mutation } from "./mutation.ts";
import type { RowId } from "./rows.ts";

import { engineMutations } from "./mutations/engine.ts";
import { kernelMutations } from "./mutations/kernel.ts";
import { modelMutations } from "./mutations/model.ts";
import { runMutations } from "./mutations/run.ts";
import { runtimeMutations } from "./mutations/runtime.ts";

export const mutations: readonly Mutation[] = [
  ...modelMutations,
  ...kernelMutations,
  ...runMutations,
  ...engineMutations,
  ...runtimeMutations,
];

export const rowsWithoutMutation: readonly RowId[] = [];
