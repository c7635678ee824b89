package table

// Upper bounds of the length of an expression's text, in which a name or value
// is a placeholder of up to four bytes. Because they are computed here, every
// driver rejects the same expressions.
const (
	nameText  = len("#299")
	valueText = len(":999")
)

// condText returns the length of a condition's text.
func condText(c Cond) int {
	switch c := c.(type) {
	case CondExists:
		return len("attribute_not_exists()") + nameText
	case CondCompare:
		return nameText + len(" <> ") + valueText
	case CondIn:
		return nameText + len(" IN ()") + len(c.Values)*(valueText+len(", "))
	case CondPrefix:
		return len("begins_with(, )") + nameText + valueText
	case CondContains:
		return len("contains(, )") + nameText + valueText
	case CondAll:
		return groupText(c)
	case CondAny:
		return groupText(c)
	case CondNot:
		return len("NOT ()") + condText(c.Cond)
	}
	return 0
}

func groupText(cs []Cond) int {
	if len(cs) == 0 { // a constant, for which DynamoDB has no shorter form
		return len("(attribute_exists() AND attribute_not_exists())") + 2*nameText
	}
	n := 0
	for _, c := range cs {
		n += condText(c) + len("() AND ")
	}
	return n
}

// updateText returns the length of an update's text.
func updateText(actions []Action) int {
	n := len("SET REMOVE ADD DELETE ")
	for _, a := range actions {
		n += nameText + valueText + len(" = , ")
		switch a := a.(type) {
		case ActSet:
			if a.IfAbsent {
				n += len("if_not_exists(, )") + nameText
			}
		case ActAppend:
			n += len("list_append(if_not_exists(, ), )") + nameText + valueText
		}
	}
	return n
}
