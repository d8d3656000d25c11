import { isSecretName, passwordsIn, secretsIn } from '../secret.ts';

/** Where a text of the file stands: its path, and the element before it in a list. */
type TextPlace = { readonly path: readonly PropertyKey[]; readonly before: unknown };

/**
 * The secrets that stand in a text of the file in clear: tokens of known services anywhere, values of fields and options whose names say
 * that they are secret, passwords and keys of addresses. A value given by `${NAME}` is none.
 */
export const writtenSecrets = (text: string, { path, before }: TextPlace): readonly string[] => {
  const written = text.replaceAll(/\$\{[^{}]*\}/g, '');
  const field = String(path.at(-1));
  const option = /^--?([\w-]+)=(.*)$/s.exec(written);
  const given =
    isSecretField(path) || (typeof before === 'string' && /^--?[\w-]+$/.test(before) && isSecretName(before))
      ? [written.replace(/^(?:Bearer|Basic|Token|Bot) /i, '')]
      : option !== null && isSecretName(option[1] ?? '')
        ? [option[2] ?? '']
        : [];
  const certain = field === 'clientSecret' ? given : given.filter(looksSecret);
  const passwords = passwordsIn(written).filter((password) => password !== '');
  return [...new Set([...secretsIn(text), ...certain, ...passwords, ...queryKeys(written)])].filter(
    (each) => each !== '',
  );
};

/** Fields for secrets, and variables and headers whose names say so. */
const isSecretField = (path: readonly PropertyKey[]): boolean => {
  const [group, field] = path.slice(-2).map(String);
  if (group === 'headers') return /^(?:authorization|cookie)$/i.test(field ?? '') || isSecretName(field ?? '');
  return group === 'env' ? isSecretName(field ?? '') : field === 'apiKey' || field === 'clientSecret';
};

/** Local servers want any key: "ollama", "not-needed". Such words are no secrets, and taking them out of the log would spoil it. */
const looksSecret = (value: string): boolean => value.length >= 10 && /\d/.test(value);

const queryKeys = (text: string): readonly string[] =>
  URL.canParse(text)
    ? [...new URL(text).searchParams].flatMap(([name, value]) =>
        isSecretName(name) && looksSecret(value) ? value : [],
      )
    : [];
