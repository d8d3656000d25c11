#!/usr/bin/env node
// Plain, old JavaScript: on a Node that is too old this file must still say so.

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
      // npm finds the project's own Node first: whoever comes this way by npm has none.
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
      // Floors live for a round of all channels. With hundreds of them V8 takes them for things that stay, and makes them where it
      // seldom collects: each keeps alive what it holds, and collecting takes three times as long.
      loaded[4].setFlagsFromString('--no-allocation-site-pretenuring');
      var packages = loaded[1].fileURLToPath(new URL(isPackage ? '../..' : '../node_modules', import.meta.url));
      // A folder of this installation, never the one for everybody's temporary files: what lies there is run.
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

/** Node 23 learned to run TypeScript by itself with 23.6. */
function isTooOld(version) {
  var parts = version.split('.').map(Number);
  if (parts[0] === 23) return parts[1] < 6;
  return parts[0] < needed[0] || (parts[0] === needed[0] && parts[1] < needed[1]);
}
