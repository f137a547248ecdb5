// The templates of `everturn init`.

/** The names of the templates: folders of the package. */
export const templates = ["app", "react"] as const;

export type Template = (typeof templates)[number];
