// How both APIs of OpenAI word the violation of a limit of a field.

import type { LimitWords } from "./field-limits.ts";

/** The messages of OpenAI's validation of fields. */
export const openaiWords: LimitWords = ({ constraint, path, size }) => {
  switch (constraint.type) {
    case "required":
      return { path, code: "missing_required_parameter", message: `Missing required parameter: '${path}'.` };
    case "pattern":
      return {
        path,
        code: "invalid_value",
        message: `Invalid '${path}': string does not match pattern. Expected a string that matches the pattern '${constraint.pattern}'.`,
      };
    case "max_length":
      return {
        path,
        code: "string_above_max_length",
        message: `Invalid '${path}': string too long. Expected a string with maximum length ${constraint.max}, but got a string with length ${size} instead.`,
      };
    case "min_items":
      return {
        path,
        code: "empty_array",
        message: `Invalid '${path}': empty array. Expected an array with minimum length ${constraint.min}, but got an empty array instead.`,
      };
    case "max_items":
      return {
        path,
        code: "array_above_max_length",
        message: `Invalid '${path}': array too long. Expected an array with maximum length ${constraint.max}, but got an array with length ${size} instead.`,
      };
    case "max_properties":
      return {
        path,
        code: "object_above_max_properties",
        message: `Invalid '${path}': too many properties. Expected an object with at most ${constraint.max} properties, but got an object with ${size} properties instead.`,
      };
    case "min":
      return {
        path,
        code: "decimal_below_min_value",
        message: `Invalid '${path}': decimal below minimum value. Expected a value >= ${constraint.min}, but got ${size} instead.`,
      };
    case "max":
      return {
        path,
        code: "decimal_above_max_value",
        message: `Invalid '${path}': decimal above maximum value. Expected a value <= ${constraint.max}, but got ${size} instead.`,
      };
  }
};
