// The templates of `everturn init`: which folders of `lib/templates` a project consists of, and what its package.json
// and its compiler settings have. Folders are shared: the chat page is the same in all templates with React.

/** The names of the templates. */
export const templates = ["app", "react", "hono", "next"] as const;

export type Template = (typeof templates)[number];

type Contents = {
  /** The folders of `lib/templates`. All templates have the agent of `app` and its test. */
  readonly folders: readonly string[];
  readonly scripts: { readonly [name: string]: string };
  readonly dependencies: { readonly [name: string]: string };
  readonly devDependencies: { readonly [name: string]: string };
  readonly compilerOptions: { readonly [name: string]: unknown };
  /** What the compiler checks besides `src`, `test` and `everturn.config.ts`. */
  readonly checked: readonly string[];
  /** What Git ignores besides packages and the database. */
  readonly ignored: readonly string[];
};

/** Node removes types without looking at them, so only erasable syntax, and imports with the extension `.ts`. */
const nodeOptions = { module: "NodeNext", lib: ["ES2023", "DOM"] } as const;

const config = "--config everturn.config.ts";

const react = {
  dependencies: {
    "@ai-sdk/react": "^4.0.167",
    ai: "^7.0.163",
    react: "^19.2.0",
    "react-dom": "^19.2.0",
    "react-markdown": "^10.1.0",
  },
  devDependencies: { "@types/react": "^19.2.0", "@types/react-dom": "^19.2.0" },
} as const;

const vite = { ...react.devDependencies, vite: "^8.3.5" };

/** The page calls the API without a login, so the studio does, too. Both listen on this machine only. */
const studio = `everturn serve --no-token ${config}`;

export const contents: { readonly [T in Template]: Contents } = {
  app: {
    folders: ["app"],
    scripts: { start: `everturn serve ${config}` },
    dependencies: {},
    devDependencies: {},
    compilerOptions: nodeOptions,
    checked: [],
    ignored: [],
  },
  react: {
    folders: ["page", "vite", "react"],
    scripts: { dev: "vite", build: "vite build", start: `vite build && everturn serve ${config}` },
    dependencies: react.dependencies,
    devDependencies: vite,
    compilerOptions: { ...nodeOptions, jsx: "react-jsx" },
    checked: ["page"],
    ignored: ["dist/"],
  },
  hono: {
    folders: ["page", "vite", "program", "hono"],
    scripts: { dev: "vite", build: "vite build", start: "vite build && node --import tsx server.ts", studio },
    dependencies: { ...react.dependencies, "@hono/node-server": "^2.1.6", hono: "^4.13.17" },
    devDependencies: vite,
    compilerOptions: { ...nodeOptions, jsx: "react-jsx" },
    checked: ["page", "server.ts"],
    ignored: ["dist/"],
  },
  next: {
    folders: ["page", "program", "next"],
    scripts: { dev: "next dev", build: "next build", start: "next build && next start -H 127.0.0.1", studio },
    dependencies: { ...react.dependencies, next: "^16.4.6" },
    // Next calls the programming interface of the compiler, which TypeScript 7 does not have.
    devDependencies: { ...react.devDependencies, typescript: "^5.9.3" },
    compilerOptions: {
      module: "ESNext",
      moduleResolution: "bundler",
      lib: ["ES2023", "DOM"],
      jsx: "react-jsx",
      isolatedModules: true,
      esModuleInterop: true,
      resolveJsonModule: true,
      allowJs: true,
      incremental: true,
      plugins: [{ name: "next" }],
    },
    checked: ["page", "app", "*.ts", ".next/types/**/*.ts", ".next/dev/types/**/*.ts"],
    ignored: [".next/", "next-env.d.ts", "*.tsbuildinfo"],
  },
};
