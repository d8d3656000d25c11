import bash from 'highlight.js/lib/languages/bash';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';

/** Code with more UTF-16 units is not coloured: that would block the page. */
const LONGEST = 30_000;

const lowlight = createLowlight({ bash, css, diff, go, javascript, json, python, rust, sql, typescript, xml, yaml });
lowlight.registerAlias({ bash: ['shell', 'console', 'zsh'], javascript: ['node'] });

/** Consecutive code of one kind ("keyword", "string"); `null` is plain. */
type Stretch = { readonly kind: string | null; readonly text: string };

/** Splits code into stretches; `null` if the language is unknown or the code too long. */
export function highlighted(code: string, language: string): readonly Stretch[] | null {
  if (code.length > LONGEST || !lowlight.registered(language)) return null;
  return lowlight.highlight(language, code).children.flatMap((node) => stretches(node, null));
}

type Child = ReturnType<typeof lowlight.highlight>['children'][number];

function stretches(node: Child, kind: string | null): readonly Stretch[] {
  if (node.type === 'text') return [{ kind, text: node.value }];
  if (node.type !== 'element') return [];
  const [name] = Array.isArray(node.properties['className']) ? node.properties['className'] : [];
  const own = typeof name === 'string' ? name.replace(/^hljs-/, '').replace(/_$/, '') : kind;
  return node.children.flatMap((child) => stretches(child, own));
}
