// SPDX-License-Identifier: Apache-2.0

package java

// op is the kind of a node.
type op uint8

const (
	opLiteral     op = iota // typ; text
	opName                  // text
	opField                 // kids[0].text
	opCall                  // kids[0].text(kids[1:]); kids[0] may be nil
	opIndex                 // kids[0][kids[1]]
	opNew                   // new typ(kids)
	opNewArray              // new typ[kids[0]]
	opArray                 // {kids} with the array type typ
	opCast                  // (typ) kids[0]
	opUnary                 // text kids[0]
	opPostfix               // kids[0] text
	opBinary                // kids[0] text kids[1]
	opAssign                // kids[0] text kids[1], text is = += ..
	opConditional           // kids[0] ? kids[1] : kids[2]
	opInstanceof            // kids[0] instanceof typ

	opBlock    // { kids }
	opLocal    // typ kids, which are opDeclare
	opDeclare  // a variable of the type typ: text = kids[0], which may be nil
	opIf       // if (kids[0]) kids[1] else kids[2], which may be nil
	opWhile    // while (kids[0]) kids[1]
	opDo       // do kids[1] while (kids[0])
	opFor      // for (kids[0]; kids[1]; kids[2]) kids[3]; kids[0] and kids[2] are opBlock, kids[1] may be nil
	opForEach  // for (typ text : kids[0]) kids[1]
	opReturn   // return kids[0]
	opThrow    // throw kids[0]
	opTry      // try kids[0] catch .. finally kids[1], which may be nil; catches are kids[2:]
	opCatch    // catch (types text) kids[0]
	opBreak    //
	opContinue //
	opExpr     // kids[0];
	opEmpty    //
)

// node is a node of the syntax tree of a body.
type node struct {
	op    op
	line  int
	text  string
	kids  []*node
	typ   *typeName
	types []*typeName
}

// typeName is a type in the source text.
type typeName struct {
	name string // includes the package if the body specifies the package; "var" for an inferred type
	args []*typeName
	dims int
	line int
}
