package jsonscan

// Elements returns the values of an array, which lie in its bytes. As with an Object, an invalid value may pass.
func Elements(array []byte) (all [][]byte, err error) {
	rest := skipSpace(array)
	if len(rest) == 0 || rest[0] != '[' {
		return nil, ErrSyntax
	}
	if rest = skipSpace(rest[1:]); len(rest) > 0 && rest[0] == ']' {
		return nil, nil
	}
	for {
		value, after := cutValue(rest)
		after = skipSpace(after)
		if len(value) == 0 || len(after) == 0 {
			return nil, ErrSyntax
		}
		all = append(all, value)
		switch after[0] {
		case ']':
			return all, nil
		case ',':
			rest = skipSpace(after[1:])
		default:
			return nil, ErrSyntax
		}
	}
}
