// SPDX-License-Identifier: Apache-2.0
// Builds the site out of the documents of the repository: node build.mjs [FOLDER], dist/site by default. `make site` installs what it needs.
//
// The documents stay as they are read on a forge: they are copied, README.md becomes the page of its folder, and links to what is no document
// lead to the repository. The order of the pages is that of docs/README.md. A link to a page that is not there is an error.
import { cp, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { dirname, join, posix, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vitepress'

const here = dirname(fileURLToPath(import.meta.url))
const root = resolve(here, '../..')
const out = resolve(process.argv[2] ?? join(root, 'dist/site'))
const repository = 'https://github.com/ilion-db/ilion/blob/main/'

const documents = async (folder, deep) => (await readdir(join(root, folder), { withFileTypes: true })).flatMap((e) =>
  e.isFile() && e.name.endsWith('.md') ? [posix.join(folder, e.name)] : []).concat(
  ...(await Promise.all(deep.map((d) => documents(posix.join(folder, d), [])))))
const pages = [...await documents('', []), ...await documents('docs', ['dev', 'rfcs'])]

// target is where a link of a page leads on the site.
function target(page, link) {
  if (/^[a-z]+:|^#/.test(link)) return link
  const [path, anchor] = link.split('#')
  let to = posix.normalize(posix.join(posix.dirname(page), path))
  if (/\.(svg|png)$/.test(to)) return link
  if (!existsSync(join(root, to))) throw new Error(`${page}: link to ${link}: there is no ${to}`)
  if (!pages.includes(to)) return repository + to.replace(/\/$/, '')
  to = to.replace(/README\.md$/, 'index.md')
  return posix.join('/', to) + (anchor ? '#' + anchor : '')
}

const fence = /^```[^]*?^```/gm
const title = (text) => /^# (.*)$/m.exec(text)?.[1] ?? ''

function onSite(page, text) {
  let kept = []
  text = text.replace(fence, (block) => `\0${kept.push(block) - 1}\0`)
  text = text.replace(/\]\(([^)\s]+)\)/g, (_, link) => `](${target(page, link)})`)
  return text.replace(/\0(\d+)\0/g, (_, i) => kept[i])
}

// sidebar has the pages in the order of docs/README.md, under its words for who reads them.
function sidebar(text, titles) {
  const groups = []
  for (const line of text.split('\n')) {
    const head = /^For (\w+)/.exec(line)
    if (head) groups.push({ text: 'For ' + head[1], items: [] })
    for (const [, link] of line.matchAll(/\]\(([^)\s#]+\.md)\)/g)) {
      const to = posix.normalize(posix.join('docs', link))
      if (groups.length && titles[to]) {
        groups.at(-1).items.push({ text: titles[to], link: '/' + to.replace(/README\.md$/, '').replace(/\.md$/, '') })
      }
    }
  }
  groups.push({ text: 'Decisions', collapsed: true, items: pages.filter((p) => p.startsWith('docs/rfcs/')).map((p) => (
    { text: titles[p], link: '/' + p.replace(/\.md$/, '') })) })
  return groups
}

const slug = (s) => s.toLowerCase().trim().replace(/[^\p{L}\p{N}_\- ]/gu, '').replace(/ /g, '-')

const stage = await mkdtemp(join(here, '.stage-'))
try {
  const titles = {}
  for (const page of pages) {
    const text = await readFile(join(root, page), 'utf8')
    titles[page] = title(text)
    const to = join(stage, page.replace(/README\.md$/, 'index.md'))
    await mkdir(dirname(to), { recursive: true })
    await writeFile(to, onSite(page, text))
  }
  await cp(join(root, 'docs/images'), join(stage, 'docs/images'), { recursive: true })
  await mkdir(join(stage, '.vitepress'))
  await cp(join(here, 'theme'), join(stage, '.vitepress/theme'), { recursive: true })
  const config = {
    title: 'Ilion', description: 'A database that speaks CQL and manages its partitions by itself',
    outDir: out, cleanUrls: false, lastUpdated: false,
    // Documents are Markdown and no templates: what looks like HTML is text.
    markdown: { html: false, linkify: false, languageAlias: { cql: 'sql' }, anchor: { slugify: slug } },
    themeConfig: {
      search: { provider: 'local' }, outline: [2, 3],
      nav: [{ text: 'Documentation', link: '/docs/' }, { text: 'Compatibility', link: '/docs/compatibility' },
        { text: 'Architecture', link: '/ARCHITECTURE' }],
      sidebar: sidebar(await readFile(join(root, 'docs/README.md'), 'utf8'), titles),
    },
  }
  // Functions are no JSON: the configuration is a module that has this one's slugs.
  await writeFile(join(stage, '.vitepress/config.mjs'), `const c = ${JSON.stringify(config)}\nc.markdown.anchor.slugify = ${slug}\nexport default c\n`)
  await build(stage)
} finally {
  await rm(stage, { recursive: true, force: true })
}
