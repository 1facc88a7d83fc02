// SPDX-License-Identifier: Apache-2.0
// Builds a website from the Markdown files of the repository: node build.mjs [FOLDER]. The default folder is dist/site. `make site` installs
// the dependencies.
//
// The script copies the Markdown files. README.md becomes the index page of its folder. Links to files that are not pages lead to the
// repository. The sidebar has the groups and the order of docs/README.md. A link to a file that does not exist is an error.
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
const folders = ['benchmarks', 'dev', 'rfcs'].filter((d) => existsSync(join(root, 'docs', d)))
const pages = [...await documents('', []), ...await documents('docs', folders)]

// target returns the address on the site to which a link of a page leads.
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

// sidebar returns one group for each section of docs/README.md, and a group for the RFCs.
function sidebar(text, titles) {
  const groups = []
  for (const line of text.split('\n')) {
    const head = /^## (.+)/.exec(line)
    if (head) groups.push({ text: head[1], collapsed: groups.length > 0, items: [] })
    for (const [, link] of line.matchAll(/\]\(([^)\s#]+\.md)\)/g)) {
      const to = posix.normalize(posix.join('docs', link))
      if (groups.length && titles[to]) {
        groups.at(-1).items.push({ text: titles[to], link: '/' + to.replace(/README\.md$/, '').replace(/\.md$/, '') })
      }
    }
  }
  const rfcs = pages.filter((p) => /^docs\/rfcs\/\d/.test(p)).sort()
  groups.push({ text: 'RFCs', collapsed: true, items: rfcs.map((p) => ({ text: titles[p], link: '/' + p.replace(/\.md$/, '') })) })
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
    title: 'Ilion', description: 'A distributed database that speaks CQL and the Azure Cosmos DB REST API',
    outDir: out, cleanUrls: false, lastUpdated: false,
    // The pages do not contain HTML or templates: text that looks like HTML is shown as text.
    markdown: { html: false, linkify: false, languageAlias: { cql: 'sql' }, anchor: { slugify: slug } },
    themeConfig: {
      search: { provider: 'local' }, outline: [2, 3],
      nav: [{ text: 'Documentation', link: '/docs/' }, { text: 'Compatibility', link: '/docs/compatibility' },
        { text: 'Architecture', link: '/ARCHITECTURE' }],
      sidebar: sidebar(await readFile(join(root, 'docs/README.md'), 'utf8'), titles),
    },
  }
  // JSON cannot contain functions, so the configuration is a module that includes the source of slug.
  await writeFile(join(stage, '.vitepress/config.mjs'), `const c = ${JSON.stringify(config)}\nc.markdown.anchor.slugify = ${slug}\nexport default c\n`)
  await build(stage)
} finally {
  await rm(stage, { recursive: true, force: true })
}
