// How both APIs of OpenAI word the violation of a limit of a field.

import type { LimitWords } from "./field-limits.ts";

/** The messages of OpenAI's validation of fields. */
export const openaiWords: LimitWords = {
  required: {
    code: "missing_required_parameter",
    message: (path) => `Missing required parameter: '${path}'.`,
  },
  pattern: {
    code: "invalid_value",
    message: (path, pattern) =>
      `Invalid '${path}': string does not match pattern. Expected a string that matches the pattern '${pattern}'.`,
  },
  max_length: {
    code: "string_above_max_length",
    message: (path, max, size) =>
      `Invalid '${path}': string too long. Expected a string with maximum length ${max}, but got a string with length ${size} instead.`,
  },
  min_items: {
    code: "empty_array",
    message: (path, min) =>
      `Invalid '${path}': empty array. Expected an array with minimum length ${min}, but got an empty array instead.`,
  },
  max_items: {
    code: "array_above_max_length",
    message: (path, max, size) =>
      `Invalid '${path}': array too long. Expected an array with maximum length ${max}, but got an array with length ${size} instead.`,
  },
  max_properties: {
    code: "object_above_max_properties",
    message: (path, max, size) =>
      `Invalid '${path}': too many properties. Expected an object with at most ${max} properties, but got an object with ${size} properties instead.`,
  },
  min: {
    code: "decimal_below_min_value",
    message: (path, min, size) =>
      `Invalid '${path}': decimal below minimum value. Expected a value >= ${min}, but got ${size} instead.`,
  },
  max: {
    code: "decimal_above_max_value",
    message: (path, max, size) =>
      `Invalid '${path}': decimal above maximum value. Expected a value <= ${max}, but got ${size} instead.`,
  },
};
