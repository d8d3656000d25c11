#!/usr/bin/env node
// Plain, old JavaScript: a Node that is too old must be able to run this file, which then prints the error.

var needed = [22, 18];
var found = process.versions.node;
var isPackage = /[\\/]node_modules[\\/]/.test(import.meta.url);

if (isTooOld(found)) {
  process.stderr.write(
    'Conch needs Node ' +
      needed.join('.') +
      ' or newer, found ' +
      found +
      '. ' +
      // npm runs scripts with the project's own Node. When npm ran this file with an old Node, the project has none.
      (isPackage
        ? 'Install a newer Node from https://nodejs.org, then run the command again.\n'
        : (/^(start|conch)$/.test(process.env.npm_lifecycle_event || '')
            ? 'The project brings its own, but not without its devDependencies: run "npm install --include=dev" '
            : 'Run it with "npm start" or "npm run conch -- <command>" in the project, which bring their own Node, ') +
          'or install a newer one from https://nodejs.org\n'),
  );
  process.exitCode = 7;
} else {
  Promise.all([import('module'), import('url'), import('fs'), import('path'), import('v8')])
    .then(function (loaded) {
      // With hundreds of channels, V8 would allocate floors among long-lived objects, where it seldom collects garbage.
      // Replaced floors would stay in memory.
      loaded[4].setFlagsFromString('--no-allocation-site-pretenuring');
      var packages = loaded[1].fileURLToPath(new URL(isPackage ? '../..' : '../node_modules', import.meta.url));
      // The cache is run as code. It is in this installation, because other users can write to the temporary folder.
      if (loaded[2].existsSync(packages)) loaded[0].enableCompileCache(loaded[3].join(packages, '.cache', 'conch'));
      return import('./main.ts');
    })
    .then(function (program) {
      return program.main(process.argv.slice(2));
    })
    .then(function (code) {
      process.exitCode = code;
      return code;
    })
    .catch(function (error) {
      process.stderr.write('Conch failed unexpectedly: ' + ((error && error.stack) || error) + '\n');
      process.exit(1);
    });
}

/** Returns whether a Node is too old to run TypeScript. Node 23 runs TypeScript since 23.6. */
function isTooOld(version) {
  var parts = version.split('.').map(Number);
  if (parts[0] === 23) return parts[1] < 6;
  return parts[0] < needed[0] || (parts[0] === needed[0] && parts[1] < needed[1]);
}
