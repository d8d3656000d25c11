/** Who asks, as the platform vouches for them; `bot` when it is a program. */
export type Person = {
  readonly id: string;
  readonly name: string;
  readonly roles: readonly string[];
  readonly bot?: boolean;
};

/** Who may change floors: ids of people, and ids of roles or groups. Nobody else may. */
export type OperatorSet = { readonly users: readonly string[]; readonly roles: readonly string[] };

/**
 * Whether this person may change a floor, judged by ids alone and anew at every use.
 * Everybody who is not named may not; bots and agents (`never`) may not even when they are named.
 */
export function mayOperate(person: Person, operators: OperatorSet, never: readonly string[]): boolean {
  if (person.bot === true || person.id === '' || never.includes(person.id)) return false;
  return (
    operators.users.includes(person.id) || person.roles.some((role) => role !== '' && operators.roles.includes(role))
  );
}
