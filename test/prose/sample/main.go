// SPDX-License-Identifier: Apache-2.0

// Command sample prints random sentences of the repository for a reader to grade. It prints an equal number from the
// documentation, the comments, and the messages.
//
//	go run ./test/prose/sample -seed 1 -n 60
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/ilion-db/ilion/test/prose"
)

func main() {
	root := flag.String("root", ".", "`folder` to read")
	seed := flag.Uint64("seed", 1, "`number` that determines the sample")
	count := flag.Int("n", 60, "`number` of sentences per class")
	minWords := flag.Int("words", 4, "minimum `number` of words in a sentence")
	flag.Parse()
	passages, err := prose.Passages(*root)
	if err != nil {
		log.Fatal(err)
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	for _, class := range []prose.Class{prose.Documentation, prose.Comment, prose.Message} {
		var sentences []string
		for _, p := range passages {
			if p.Class != class {
				continue
			}
			for _, s := range prose.Sentences(p.Text) {
				if len(strings.Fields(s)) >= *minWords {
					sentences = append(sentences, fmt.Sprintf("%s:%d\t%s", p.Path, p.Line, s))
				}
			}
		}
		random.Shuffle(len(sentences), func(i, j int) { sentences[i], sentences[j] = sentences[j], sentences[i] })
		fmt.Fprintf(os.Stdout, "# %s: %d of %d sentences\n", class, min(*count, len(sentences)), len(sentences))
		for i, s := range sentences[:min(*count, len(sentences))] {
			fmt.Printf("%d\t%s\n", i+1, s)
		}
	}
}
